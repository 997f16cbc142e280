"""From scores to tokens, one at a time, without computing the past again."""
