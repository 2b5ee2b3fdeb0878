"""Messages to the runtime's values and back. Pure: no calls, no waiting, nothing kept.

Whatever comes in is checked as far as the message alone (and the model's vocabulary) allows, so that an error names the
field as the client wrote it; the runtime checks what depends on a session's state.
"""
