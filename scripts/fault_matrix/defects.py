"""What is known to be wrong: cells that show it are marked, and do not fail the run. Whoever mends one takes it out here."""

import re

# Letter, the call, the words of the error, what is wrong with it.
KNOWN: tuple[tuple[str, str, str, str], ...] = ()
# Where an error speaks of none, or of the wrong one.
OF_WORDS = "the error "


def sort_out(call, words, wrong):
    """Takes what is known out of `wrong`, and gives its letters."""
    letters = []
    for letter, of_call, of_words, _ in KNOWN:
        if re.fullmatch(of_call, call) and re.search(of_words, words):
            found = [reason for reason in wrong if reason.startswith(OF_WORDS)]
            if found:
                letters.append(letter)
                wrong[:] = [reason for reason in wrong if reason not in found]
    return letters
