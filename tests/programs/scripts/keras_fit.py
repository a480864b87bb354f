"""Keras 3 on its JAX backend: a small convolutional net, `model.fit` with validation."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras  # noqa: E402
import numpy as np  # noqa: E402

rng = np.random.default_rng(0)
images = rng.normal(size=(96, 28, 28, 1)).astype("float32")
labels = rng.integers(0, 10, 96)

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(images, labels, batch_size=32, epochs=2, validation_split=1 / 3, verbose=0)
print("epochs", len(history.history["loss"]), "measures", sorted(history.history))
print("predictions", model.predict(images[:5], verbose=0).shape)
