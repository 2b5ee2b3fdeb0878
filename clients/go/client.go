package tokenloom

import (
	"context"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Client is a connection to a server. Make it with [Dial].
type Client struct {
	connection *grpc.ClientConn
	generator  pb.GeneratorClient
	models     pb.ModelsClient
	tokenizer  pb.TokenizerClient
}

// Dial makes a client of the server at target: "host:port", or any name that gRPC resolves. Nothing is sent before the
// first call. The error is for a target or options that can't be used.
func Dial(target string, options ...Option) (*Client, error) {
	settings := settings{credentials: insecure.NewCredentials(), maxMessageBytes: MaxMessageBytes}
	for _, option := range options {
		option(&settings)
	}
	homes := newHomes()
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(settings.credentials),
		grpc.WithDefaultServiceConfig(serviceConfig()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveInterval}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(settings.maxMessageBytes),
			grpc.MaxCallSendMsgSize(settings.maxMessageBytes),
			grpc.MaxRetryRPCBufferSize(settings.maxMessageBytes), // So that large messages are sent again, too.
		),
		grpc.WithChainUnaryInterceptor(homes.unary),
		grpc.WithChainStreamInterceptor(homes.stream),
	}
	connection, err := grpc.NewClient(target, append(dial, settings.dial...)...)
	if err != nil {
		return nil, err
	}
	return &Client{
		connection: connection,
		generator:  pb.NewGeneratorClient(connection),
		models:     pb.NewModelsClient(connection),
		tokenizer:  pb.NewTokenizerClient(connection),
	}, nil
}

// Close ends the connection and every call on it. Sessions stay in the server until they idle out.
func (c *Client) Close() error {
	return c.connection.Close()
}

// Connection is the gRPC connection, for the generated stubs and for services beside Tokenloom's, such as health.
func (c *Client) Connection() *grpc.ClientConn {
	return c.connection
}

// ServerInfo tells the server's version, limits and features.
func (c *Client) ServerInfo(ctx context.Context) (*pb.GetServerInfoResponse, error) {
	return checked(c.models.GetServerInfo(ctx, &pb.GetServerInfoRequest{}))
}

// CreateSession makes a session; nil means an empty one with the defaults. Close it, or it ends once it has idled for
// its idle_timeout.
//
// Errors: INVALID_ARGUMENT (a setting, content), [ErrModelNotFound], [ErrAdapterNotFound], [ErrSessionExists] (a
// proposed id), [ErrContextLengthExceeded], [ErrSessionLimit].
func (c *Client) CreateSession(ctx context.Context, request *pb.CreateSessionRequest) (*Session, error) {
	request = copyOf(request)
	identify(request)
	reply, err := checked(c.generator.CreateSession(ctx, request))
	if err != nil {
		return nil, err
	}
	return newSession(c, reply), nil
}

// Attach finds the session of that id, made by any client. Errors: [ErrSessionNotFound], [ErrSessionExpired].
func (c *Client) Attach(ctx context.Context, sessionID string) (*Session, error) {
	reply, err := checked(c.generator.GetSession(ctx, &pb.GetSessionRequest{SessionId: sessionID}))
	if err != nil {
		return nil, err
	}
	return newSession(c, reply), nil
}

// Sessions iterates over the server's sessions, by id: those of one model, or all where model is empty. After an error
// there is nothing more.
func (c *Client) Sessions(ctx context.Context, model string) iter.Seq2[*pb.SessionState, error] {
	return pages(func(token string) ([]*pb.SessionState, string, error) {
		request := &pb.ListSessionsRequest{PageSize: pageSize, PageToken: token, Model: model}
		reply, err := checked(c.generator.ListSessions(ctx, request))
		return reply.GetSessions(), reply.GetNextPageToken(), err
	})
}
