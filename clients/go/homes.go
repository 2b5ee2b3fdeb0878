package tokenloom

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

const hostHeader = "x-session-host"

// homes knows where sessions are. A proxy before several servers names the one that answered in a header, and takes
// calls that have the header there. Without such a proxy there is nothing to know.
type homes struct {
	mu    sync.Mutex
	hosts map[string]string // By session.
}

func newHomes() *homes {
	return &homes{hosts: map[string]string{}}
}

// unary leads calls to the session they name, and learns from replies where sessions are.
func (h *homes) unary(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	var sessionID string
	if about, ok := request.(interface{ GetSessionId() string }); ok {
		sessionID = about.GetSessionId()
	}
	var header metadata.MD
	options = append(options, grpc.Header(&header))
	if err := invoke(h.lead(ctx, sessionID), method, request, reply, connection, options...); err != nil {
		return err
	}
	if _, ok := request.(*pb.CloseSessionRequest); ok {
		h.forget(sessionID)
	} else if told, ok := reply.(stateful); ok {
		h.learn(told.GetState().GetSessionId(), header, sessionID)
	}
	return nil
}

// stream leads a Converse stream to the session that its context names.
func (h *homes) stream(
	ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	sessionID, _ := ctx.Value(streamSession{}).(string)
	return open(h.lead(ctx, sessionID), description, connection, method, options...)
}

// streamSession is the key under which a stream's context names its session: its first message comes too late for
// that.
type streamSession struct{}

func (h *homes) lead(ctx context.Context, sessionID string) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if host, ok := h.hosts[sessionID]; ok {
		return metadata.AppendToOutgoingContext(ctx, hostHeader, host)
	}
	return ctx
}

// learn keeps where a session is. Calls that were answered where they were sent get no header: what came of them, a
// fork for example, is where the session they named is.
func (h *homes) learn(sessionID string, header metadata.MD, asked string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if host := header.Get(hostHeader); len(host) > 0 && host[0] != "" {
		h.hosts[sessionID] = host[0]
	} else if host, ok := h.hosts[asked]; ok {
		h.hosts[sessionID] = host
	}
}

func (h *homes) forget(sessionID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.hosts, sessionID)
}
