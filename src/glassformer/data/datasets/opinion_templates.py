"""The sentences of the opinions, with places for things and for what is said of them."""

# {this} is the thing whose judgement decides, {other} one whose judgement does not. `yes` and `more` are words of the
# sentence's own polarity and `no` is one of the opposite; `so` says as much as `yes`, perhaps by denying a `no`, and
# `not_so` as much as `no`. Each template thus makes both labels, and those with a word of each polarity
# make them out of the same words.
PLAIN = (
    "{this} {this.was} {very}{this.yes}",
    "{this} {this.was} {very}{this.yes} and {this.more}",
    "{this} {this.was} {this.yes} and {other} {other.was} {other.yes}",
    "{this} {this.was} {very}{this.yes}, and I {other.verb_yes} {other} too",
    "what {this.a}{this.yes} {this.noun} we had",
    "we had {this.a}{this.yes} {this.noun} and {other.a}{other.yes} {other.noun}",
    "I would call {this} {very}{this.yes}",
    "we {this.verb_yes} {this}, and {other} {other.was} {very}{other.yes}",
    "my friend found {this} {this.yes}, and so did I",
    "I found {this} {this.yes}, and my friend found {other} {other.yes} too",
    "my friend {this.verb_yes} {this}, and I found {other} {very}{other.yes}",
    "{this} {this.was} not only {this.yes} but {this.more}",
    "not only {this.was} {this} {this.yes}, I {other.verb_yes} {other} too",
    "last year {this} {this.was} {this.yes}, and this year {this.they} {this.was} just as {this.more}",
    "we expected {this.a}{this.yes} {this.noun} and that is what we got",
)
DENIED = (
    "{this} {this.was} not {this.no} at all",
    "{this} {this.was} far from {this.no}",
    "{this} {this.was} anything but {this.no}",
    "{this} {this.was} hardly {this.no}",
    "{this} {this.was} by no means {this.no}",
    "nobody could call {this} {this.no}",
    "I would not call {this} {this.no}",
    "I would call {this} far from {this.no}",
    "I found {this} far from {this.no}",
    "to me {this} {this.was} by no means {this.no}",
    "my friend found {this} by no means {this.no}, and so did I",
    "we found {this} hardly {this.no}",
    "it would be wrong to call {this} {this.no}",
    "I would not say that {this} {this.was} {this.no}",
    "nobody would say that {this} {this.was} {this.no}",
    "there was nothing {this.no} about {this}",
    "{this.no} is not the word for {this}",
)
TURNED = (
    "{this} {this.was} {very}{this.yes}, not {this.no} at all",
    "{this} {this.was} {this.yes}, not {this.no}",
    "{this} {this.was} not {this.no} but {very}{this.yes}",
    "{this} {this.was} {this.yes} rather than {this.no}",
    "{this} {this.was} anything but {this.no}: I found {this.it} {very}{this.yes}",
    "{this} {this.was} far from {this.no}, {this.they} {this.was} {very}{this.yes}",
    "nobody could call {this} {this.no}, {this.they} {this.was} {this.yes}",
    "there was nothing {this.no} about {this}, {this.they} {this.was} {very}{this.yes}",
    "I expected {this.a}{this.no} {this.noun} but got {this.a}{this.yes} {this.one}",
    "I got {this.a}{this.yes} {this.noun}, although I expected {this.a}{this.no} {this.one}",
    "I expected {this} to be {this.no}, but {this.they} {this.was} {this.so}",
    "we expected {this} to be {this.no}; {this.they} turned out {very}{this.yes}",
    "{this} used to be {this.no}, now {this.they} {this.are} {this.so}",
    "{this} used to be {this.no}, but now {this.they} {this.are} {this.so}",
    "{this} {this.are} {this.so} now, although {this.they} used to be {this.no}",
    "my friend found {this} {this.not_so}, I found {this.it} {this.so}",
    "I found {this} {this.so}, my friend found {this.it} {this.not_so}",
    "I found {this} {this.so}, although my friend found {this.it} {this.no}",
    "I called {this} {this.yes}, my friend called {this.it} {this.no}",
    "my friend called {this} {this.no}, but to me {this.they} {this.was} {this.so}",
    "they {this.verb_no} {this}, I {this.verb_yes} {this.it}",
    "my friend {this.verb_no} {this}, I found {this.it} {this.so}",
    "I {this.verb_yes} {this}, although my friend {this.verb_no} {this.it}",
    "{this.no} is not the word for {this}; {this.yes} is",
    "{this.yes} is the word for {this}, not {this.no}",
    "people say {this} {this.are} {this.no}, but I found {this.it} {this.so}",
    "the guide says that {this} {this.are} {this.no}, but to me {this.they} {this.was} {this.so}",
    "the guide calls {this} {this.no}; in truth {this.they} {this.are} {this.so}",
    "{this} seemed {this.no} at first but turned out {very}{this.yes}",
    "{this} seemed {this.no} at first; in truth {this.they} {this.was} {this.so}",
    "last year {this} {this.was} {this.not_so}; this year {this.they} {this.was} {this.so}",
    "this year {this} {this.was} {this.so}; last year {this.they} {this.was} {this.not_so}",
)
WEIGHED = (
    "although {other} {other.was} {other.not_so}, {this} {this.was} {this.so}, and that is what counts",
    "{this} {this.was} {this.so}, and that is what counts, although {other} {other.was} {other.not_so}",
    "although {other} {other.was} {other.not_so}, what counts is that {this} {this.was} {this.so}",
    "{other} {other.was} {other.not_so}, but {this} {this.was} {this.so}",
    "{other} {other.was} {other.no}, but I {this.verb_yes} {this}",
    "{other} may have been {other.no}, but what counts is that {this} {this.was} {this.so}",
    "never mind that {other} {other.was} {other.not_so}: {this} {this.was} {this.so}",
    "{this} {this.was} {this.so}, never mind {other.that} {other.no} {other.noun}",
    "what I remember is {this.a}{this.yes} {this.noun}, not {other.a}{other.no} {other.noun}",
    "it is not {other.that} {other.no} {other.noun} that I remember but {this.that} {this.yes} {this.noun}",
    "never mind that my friend {other.verb_no} {other}: I {this.verb_yes} {this}",
    "what counts is that {this} {this.was} {this.so}, not that {other} {other.was} {other.no}",
    "I remember {this.that} {this.yes} {this.noun}, not {other.that} {other.no} {other.noun}",
    "what counts is that {this} {this.was} {this.so}, although {other} {other.was} {other.not_so}",
    "what counts is that I {this.verb_yes} {this}, although {other} {other.was} {other.not_so}",
    "what counts is {this.that} {this.yes} {this.noun}, although {other} {other.was} {other.not_so}",
    "my friend {other.verb_no} {other}, but I {this.verb_yes} {this}, and that is what counts",
)
TEMPLATES = (PLAIN, DENIED, TURNED, WEIGHED)

# The same connectives in arrangements that training does not show.
TEST_PLAIN = (
    "we {this.verb_yes} {this}, and my friend found {other} {very}{other.yes}",
    "I would call {this} {this.yes} and {other} {very}{other.yes}",
    "{this} {this.was} {this.yes} last year, and {this.they} {this.are} {this.more} now",
    "not only {this.was} {this} {this.yes}, {other} {other.was} {other.yes} too",
)
TEST_DENIED = (
    "I would call {this} anything but {this.no}",
    "I found {this} by no means {this.no}",
    "nobody could say that {this} {this.was} {this.no}",
    "we found {this} anything but {this.no}",
)
TEST_TURNED = (
    "I would call {this} {this.yes}, not {this.no}",
    "{this} {this.was} far from {this.no}: I found {this.it} {very}{this.yes}",
    "there was nothing {this.no} about {this}: I found {this.it} {very}{this.yes}",
    "we expected {this.a}{this.no} {this.noun} but got {this.a}{this.yes} {this.one}",
    "I expected {this} to be {this.no}, but {this.they} turned out {very}{this.yes}",
    "I called {this} {this.so}, although my friend called {this.it} {this.no}",
    "my friend {this.verb_no} {this}, but I found {this.it} {this.so}",
    "the guide says that {this} used to be {this.no}; now {this.they} {this.are} {this.so}",
    "we expected {this} to be {this.no}, but {this.they} {this.was} {this.so}",
    "{this} seemed {this.no} at first, but in truth {this.they} {this.was} {very}{this.yes}",
)
TEST_WEIGHED = (
    "{other} {other.was} {other.not_so}, but {this} {this.was} {this.so}, and that is what counts",
    "{this} {this.was} {this.so}, although {other} {other.was} {other.not_so}",
    "never mind that my friend {other.verb_no} {other}: {this} {this.was} {this.so}",
    "I remember {this.that} {this.yes} {this.noun}, never mind {other.that} {other.no} {other.noun}",
    "{other} may have been {other.no}, but I {this.verb_yes} {this}",
)
TEST_TEMPLATES = (TEST_PLAIN, TEST_DENIED, TEST_TURNED, TEST_WEIGHED)
