package tokenloom_test

import (
	"net"
	"sync"
	"testing"
)

// proxy passes bytes to the server and back. It can hold replies back, and cut connections.
type proxy struct {
	target   string
	listener net.Listener

	mu     sync.Mutex
	passes *sync.Cond
	isHeld bool
	open   []net.Conn
}

func newProxy(t *testing.T) *proxy {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{target: listener.Addr().String(), listener: listener}
	p.passes = sync.NewCond(&p.mu)
	go p.accept()
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
	})
	return p
}

// hold keeps the server's bytes from the client until cut.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isHeld = true
}

// cut closes every connection and lets new ones pass.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, each := range p.open {
		_ = each.Close()
	}
	p.open, p.isHeld = nil, false
	p.passes.Broadcast()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		go p.pass(client, server, false)
		go p.pass(server, client, true)
	}
}

func (p *proxy) pass(source, sink net.Conn, isReply bool) {
	defer source.Close()
	defer sink.Close()
	buffer := make([]byte, 1<<16)
	for {
		count, err := source.Read(buffer)
		if err != nil {
			return
		}
		if isReply {
			p.await()
		}
		if _, err := sink.Write(buffer[:count]); err != nil {
			return
		}
	}
}

func (p *proxy) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.isHeld {
		p.passes.Wait()
	}
}
