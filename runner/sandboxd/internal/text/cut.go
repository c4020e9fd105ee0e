// Package text cuts bytes between characters, never inside one.
package text

import "unicode/utf8"

// TrimHead drops a character at the end whose rest was cut away. Bytes that are no UTF-8 stay.
func TrimHead(head []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(head); back++ {
		start := len(head) - back
		if utf8.RuneStart(head[start]) {
			if !utf8.FullRune(head[start:]) {
				return head[:start]
			}
			return head
		}
	}
	return head
}

// TrimTail drops the rest of a character at the front whose start was cut away.
func TrimTail(tail []byte) []byte {
	for front := 0; front < utf8.UTFMax; front++ {
		if front == len(tail) || utf8.RuneStart(tail[front]) {
			return tail[front:]
		}
	}
	return tail
}
