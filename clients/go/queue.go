package tokenloom

import (
	"context"
	"sync"
)

// queue passes items on in order. Pushing never waits: whoever bounds what is under way is the server.
type queue[T any] struct {
	mu       sync.Mutex
	items    []T
	isClosed bool
	news     chan struct{} // Holds a token while there may be something to take; closed with the queue.
}

func newQueue[T any]() *queue[T] {
	return &queue[T]{news: make(chan struct{}, 1)}
}

// push adds an item, unless the queue is closed.
func (q *queue[T]) push(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed {
		q.items = append(q.items, item)
		q.announce()
	}
}

// close lets takers have what is there and no more.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isClosed {
		q.isClosed = true
		close(q.news)
	}
}

// take waits for the next item. False once the queue is closed and empty; the error is the context's.
func (q *queue[T]) take(ctx context.Context) (item T, ok bool, err error) {
	for {
		item, ok, isClosed := q.takeNow()
		if ok || isClosed {
			return item, ok, nil
		}
		select {
		case <-q.news:
		case <-ctx.Done():
			return item, false, ctx.Err()
		}
	}
}

func (q *queue[T]) takeNow() (item T, ok, isClosed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return item, false, q.isClosed
	}
	item, q.items = q.items[0], q.items[1:]
	if len(q.items) > 0 {
		q.announce() // For another taker.
	}
	return item, true, q.isClosed
}

func (q *queue[T]) announce() {
	if q.isClosed {
		return
	}
	select {
	case q.news <- struct{}{}:
	default:
	}
}
