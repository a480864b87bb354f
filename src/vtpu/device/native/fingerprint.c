#include "fingerprint.h"

#include <string.h>

enum { PIECE = 4096, PIECES = 64 };

/* FNV-1a's constants (http://www.isthe.com/chongo/tech/comp/fnv/), on words instead of bytes, with a
 * shift, for a product alone never carries the upper bits down. */
static const uint64_t BASIS = 14695981039346656037u, PRIME = 1099511628211u;

static uint64_t mix(uint64_t hash, const char *data, size_t size) {
  uint64_t word;
  for (; size >= sizeof word; data += sizeof word, size -= sizeof word) {
    memcpy(&word, data, sizeof word);
    hash = (hash ^ word) * PRIME;
    hash ^= hash >> 32;
  }
  if (!size) return hash;
  word = 0;
  memcpy(&word, data, size);
  return (hash ^ word) * PRIME;
}

int64_t vt_fingerprint(const void *data, size_t size) {
  uint64_t hash = (BASIS ^ size) * PRIME;
  if (size <= (size_t)PIECE * PIECES) {
    hash = mix(hash, data, size);
  } else {
    for (size_t i = 0; i < PIECES; i++) /* from the first byte to the last */
      hash = mix(hash, (const char *)data + (size - PIECE) * i / (PIECES - 1), PIECE);
  }
  hash ^= hash >> 32;
  return (int64_t)(hash >> 1);
}
