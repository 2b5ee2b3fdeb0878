package tokenloom

// Reason says why something failed, stably. It is an error itself, to compare with:
//
//	errors.Is(err, tokenloom.ErrSessionNotFound)
//
// docs/errors.md says when each one comes and with which metadata.
type Reason string

// Error is the reason as the server spells it.
func (r Reason) Error() string {
	return string(r)
}

// The reasons there are.
const (
	ErrFieldInvalid          Reason = "FIELD_INVALID"           // A field has a value that is never allowed.
	ErrSessionNotFound       Reason = "SESSION_NOT_FOUND"       // No session of that id.
	ErrSessionExpired        Reason = "SESSION_EXPIRED"         // The session idled out and is closed.
	ErrModelNotFound         Reason = "MODEL_NOT_FOUND"         // Not loaded, or no such folder.
	ErrAdapterNotFound       Reason = "ADAPTER_NOT_FOUND"       // Not loaded, or no such file.
	ErrInputNotFound         Reason = "INPUT_NOT_FOUND"         // The model has no input of that name.
	ErrOutputNotFound        Reason = "OUTPUT_NOT_FOUND"        // The model has no output of that name.
	ErrSessionExists         Reason = "SESSION_EXISTS"          // The session's id is taken.
	ErrModelExists           Reason = "MODEL_EXISTS"            // The model's name is taken.
	ErrAdapterExists         Reason = "ADAPTER_EXISTS"          // The adapter's name is taken.
	ErrPathOutside           Reason = "PATH_OUTSIDE"            // The path leaves the server's folders.
	ErrSessionEmpty          Reason = "SESSION_EMPTY"           // A row has no tokens yet.
	ErrSessionDone           Reason = "SESSION_DONE"            // Every row is finished: append or rewind.
	ErrSessionAttached       Reason = "SESSION_ATTACHED"        // Another stream holds the session.
	ErrSessionTerminated     Reason = "SESSION_TERMINATED"      // The option terminate_session is set.
	ErrNothingGenerated      Reason = "NOTHING_GENERATED"       // No step since the last append or rewind.
	ErrNothingRun            Reason = "NOTHING_RUN"             // The session has not run yet.
	ErrRewindBeyondLength    Reason = "REWIND_BEYOND_LENGTH"    // The row is shorter.
	ErrLogitsNotFinite       Reason = "LOGITS_NOT_FINITE"       // No token can be chosen.
	ErrInputManaged          Reason = "INPUT_MANAGED"           // The engine keeps that input itself.
	ErrInputMissing          Reason = "INPUT_MISSING"           // The model needs an input that was not set.
	ErrRowsDiffer            Reason = "ROWS_DIFFER"             // One tensor for rows that differ in shape.
	ErrAdapterInUse          Reason = "ADAPTER_IN_USE"          // Sessions use the adapter.
	ErrModelInUse            Reason = "MODEL_IN_USE"            // Sessions use the model.
	ErrAdaptersUnsupported   Reason = "ADAPTERS_UNSUPPORTED"    // The model takes no adapters.
	ErrNoTokenizer           Reason = "NO_TOKENIZER"            // The model has no tokenizer.
	ErrNoChatTemplate        Reason = "NO_CHAT_TEMPLATE"        // The model has no chat template.
	ErrTokenizerInvalid      Reason = "TOKENIZER_INVALID"       // The model's tokenizer can't be used.
	ErrChatTemplateInvalid   Reason = "CHAT_TEMPLATE_INVALID"   // The model's chat template can't be used.
	ErrModelInvalid          Reason = "MODEL_INVALID"           // The model can't be run.
	ErrModelUnsupported      Reason = "MODEL_UNSUPPORTED"       // Models of this kind can't be run.
	ErrModelDamaged          Reason = "MODEL_DAMAGED"           // The model's files are damaged.
	ErrDeviceUnavailable     Reason = "DEVICE_UNAVAILABLE"      // The device isn't there.
	ErrPositionMismatch      Reason = "POSITION_MISMATCH"       // The session is not as long as expected_length says.
	ErrContextLengthExceeded Reason = "CONTEXT_LENGTH_EXCEEDED" // Past max_length; nothing was appended.
	ErrSessionLimit          Reason = "SESSION_LIMIT"           // Too many sessions.
	ErrQueueFull             Reason = "QUEUE_FULL"              // Too many operations of the session are queued.
	ErrReplyTooLarge         Reason = "REPLY_TOO_LARGE"         // Ask for less.
	ErrCancelled             Reason = "CANCELLED"               // The caller cancelled.
	ErrSessionClosed         Reason = "SESSION_CLOSED"          // The session ended while the operation waited.
	ErrDraining              Reason = "DRAINING"                // The server is going down.
	ErrStopped               Reason = "STOPPED"                 // The server has gone down.
	ErrUnimplemented         Reason = "UNIMPLEMENTED"           // This server doesn't do that.
	ErrEngineError           Reason = "ENGINE_ERROR"            // A model run failed; the server's log says why.
	ErrInternal              Reason = "INTERNAL"                // A bug; the id in the metadata finds it in the log.
)
