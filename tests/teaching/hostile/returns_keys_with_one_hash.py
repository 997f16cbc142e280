# Returns keys with one hash.
# loses: largest
# says: gives a dict with more than
import itertools

largest = dict.fromkeys(range(5000))
