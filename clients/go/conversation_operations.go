package tokenloom

import pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"

// Append is [Session.Append].
func (c *Conversation) Append(
	inputs []*pb.RowInput, more ...func(*pb.AppendTokensRequest),
) *Future[*pb.SessionState] {
	return send(c, appendInputs(inputs, more))
}

// AppendTokens is [Session.AppendTokens].
func (c *Conversation) AppendTokens(
	tokens []uint32, more ...func(*pb.AppendTokensRequest),
) *Future[*pb.SessionState] {
	return c.Append([]*pb.RowInput{Tokens(tokens...)}, more...)
}

// AppendText is [Session.AppendText].
func (c *Conversation) AppendText(text string, more ...func(*pb.AppendTokensRequest)) *Future[*pb.SessionState] {
	return c.Append([]*pb.RowInput{Text(text)}, more...)
}

// AppendMessages is [Session.AppendMessages].
func (c *Conversation) AppendMessages(
	messages []*pb.ChatMessage, more ...func(*pb.AppendTokensRequest),
) *Future[*pb.SessionState] {
	return c.Append([]*pb.RowInput{Chat(messages...)}, more...)
}

// GenerateNextToken is [Session.GenerateNextToken].
func (c *Conversation) GenerateNextToken(more ...func(*pb.GenerateNextTokenRequest)) *Future[[]uint32] {
	return send(c, generateNextToken(more))
}

// GetNextTokens is [Session.GetNextTokens].
func (c *Conversation) GetNextTokens() *Future[[]uint32] {
	return send(c, getNextTokens())
}

// GetSequence is [Session.GetSequence].
func (c *Conversation) GetSequence(
	row uint32, more ...func(*pb.GetSequenceRequest),
) *Future[*pb.GetSequenceResponse] {
	return send(c, getSequence(row, more))
}

// GetTokenCount is [Session.GetTokenCount].
func (c *Conversation) GetTokenCount() *Future[*pb.SessionState] {
	return send(c, getTokenCount())
}

// RewindTo is [Session.RewindTo].
func (c *Conversation) RewindTo(length uint32, more ...func(*pb.RewindToRequest)) *Future[*pb.SessionState] {
	return send(c, rewindTo(length, more))
}

// Fork is [Session.Fork]; [Client.Attach] finds the new session by its id. The conversation stays with the original.
func (c *Conversation) Fork(request *pb.ForkSessionRequest) *Future[*pb.ForkSessionResponse] {
	return send(c, fork(request))
}

// GetLogits is [Session.GetLogits].
func (c *Conversation) GetLogits(selector *pb.LogitsSelector) *Future[*Logits] {
	return send(c, getLogits(selector))
}

// SetLogits is [Session.SetLogits].
func (c *Conversation) SetLogits(
	edits []*pb.LogitsEdit, more ...func(*pb.SetLogitsRequest),
) *Future[*pb.SessionState] {
	return send(c, setLogits(edits, more))
}

// SetInputs is [Session.SetInputs].
func (c *Conversation) SetInputs(
	inputs []*pb.NamedTensor, more ...func(*pb.SetInputsRequest),
) *Future[*pb.SessionState] {
	return send(c, setInputs(inputs, more))
}

// SetModelInput is [Session.SetModelInput].
func (c *Conversation) SetModelInput(
	name string, value *pb.Tensor, more ...func(*pb.SetModelInputRequest),
) *Future[*pb.SessionState] {
	return send(c, setModelInput(name, value, more))
}

// GetInput is [Session.GetInput].
func (c *Conversation) GetInput(name string) *Future[*pb.Tensor] {
	return send(c, getInput(name))
}

// GetOutput is [Session.GetOutput].
func (c *Conversation) GetOutput(name string) *Future[*pb.Tensor] {
	return send(c, getOutput(name))
}

// SetActiveAdapter is [Session.SetActiveAdapter].
func (c *Conversation) SetActiveAdapter(
	adapter string, more ...func(*pb.SetActiveAdapterRequest),
) *Future[*pb.SessionState] {
	return send(c, setActiveAdapter(adapter, more))
}

// SetRuntimeOption is [Session.SetRuntimeOption].
func (c *Conversation) SetRuntimeOption(key, value string) *Future[*pb.SessionState] {
	return send(c, setRuntimeOption(key, value))
}

// Interrupt is [Session.Interrupt]. It overtakes what is queued.
func (c *Conversation) Interrupt() *Future[*pb.SessionState] {
	return send(c, interrupt())
}
