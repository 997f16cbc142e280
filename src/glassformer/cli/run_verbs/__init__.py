"""The verbs that take a RUN: use it, judge it, look inside, hand it on."""
