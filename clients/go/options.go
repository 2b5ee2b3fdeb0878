package tokenloom

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// MaxMessageBytes is the largest message that is sent or taken unless [WithMaxMessageBytes] says otherwise: the
// server's own default.
const MaxMessageBytes = 64 << 20

// Servers end connections that are tested much more often.
const keepaliveInterval = 30 * time.Second

// Option is a setting of a client, for [Dial].
type Option func(*settings)

type settings struct {
	credentials     credentials.TransportCredentials
	maxMessageBytes int
	dial            []grpc.DialOption
}

// WithTransportCredentials secures the connection, with TLS for example. By default it is plain text.
func WithTransportCredentials(credentials credentials.TransportCredentials) Option {
	return func(s *settings) { s.credentials = credentials }
}

// WithMaxMessageBytes is for servers whose largest message ([Client.ServerInfo] tells it) isn't the default.
func WithMaxMessageBytes(bytes int) Option {
	return func(s *settings) { s.maxMessageBytes = bytes }
}

// WithDialOptions passes options on to gRPC: interceptors, statistics, a service config with other retries,
// grpc.WaitForReady as a default call option to wait for a server that is still starting.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}
