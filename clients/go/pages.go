package tokenloom

import "iter"

const pageSize = 1000 // The most that servers give at once.

// pages iterates over the items of a list that comes in pages. A page is asked for by the token that the one before
// gave; the last gives none.
func pages[T any](page func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			items, next, err := page(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}
