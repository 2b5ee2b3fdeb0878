// Package tokenloom is a client of Tokenloom, a gRPC service that keeps stateful token-generation sessions on ONNX
// Runtime.
//
//	client, err := tokenloom.Dial("localhost:50051")
//	session, err := client.CreateSession(ctx, nil)
//	state, err := session.AppendText(ctx, "Once upon a time")
//	for token, err := range session.Stream(ctx, tokenloom.Steps(50)) {
//		fmt.Print(token.Text)
//	}
//
// Requests and replies are the generated messages of tokenloom/v1, whose comments are the reference of every field.
// Methods whose request is mostly settings take it as it is; nil means the defaults. The others take what each call
// needs as arguments, and functions that fill in what else the request has:
//
//	session.RewindTo(ctx, 5, func(r *tokenloomv1.RewindToRequest) { r.Seed = proto.Uint64(7) })
//
// The session's id and a request id are filled in. With a request id an operation is done once however often it is
// sent, so where no server answers, reads and operations that change a session are sent again. Contexts bound and
// cancel everything; after a cancel, as after any error, a session is at a token boundary and usable.
//
// Every error that comes from a call is an [*Error]. Clients, sessions and conversations may be used by several
// goroutines.
package tokenloom
