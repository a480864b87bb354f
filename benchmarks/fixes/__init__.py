"""Programs with faults planted in them, and clean ones: what `vtpu` finds, and what `vtpu fix` makes of them."""
