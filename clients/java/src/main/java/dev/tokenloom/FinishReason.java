package dev.tokenloom;

/** Why a row generates no more tokens. Appending or rewinding clears it. */
public enum FinishReason {
    /** It can go on. */
    NONE,
    /** An end-of-sequence token was generated; it is the row's last token. */
    EOS,
    /** max_length or max_new_tokens is reached. */
    LENGTH,
    /** A stop string appeared in the generated text. */
    STOP_STRING,
    /** A logits processor ended it. */
    STOPPED
}
