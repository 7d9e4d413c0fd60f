// grpc-go with its stock settings against a running server: long streams, large messages at once, long unary loops.
// Messages are put together by hand, so that no generated code is needed. Arguments: the server's address.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	service = "/inference.GRPCInferenceService/"
	infer   = service + "ModelInfer"
	stream  = service + "ModelStreamInfer"
)

// Messages are bytes already.
type rawCodec struct{}

func (rawCodec) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (rawCodec) Name() string { return "proto" }

func appendBytes(to []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
}

// inference.ModelInferRequest for the model identity, with one tensor of bytes.
func request(id string, payload []byte) []byte {
	shape := protowire.AppendVarint(nil, uint64(len(payload)))
	var tensor, message []byte
	tensor = appendBytes(tensor, 1, []byte("INPUT0"))
	tensor = appendBytes(tensor, 2, []byte("UINT8"))
	tensor = appendBytes(tensor, 3, shape)
	message = appendBytes(message, 1, []byte("identity"))
	message = appendBytes(message, 3, []byte(id))
	message = appendBytes(message, 5, tensor)
	return appendBytes(message, 7, payload)
}

// The first value of a field of length-delimited bytes.
func find(message []byte, field protowire.Number) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return nil
		}
		if number == field && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			return value
		}
		message = message[n+size:]
	}
	return nil
}

// Whether `response` is an inference.ModelInferResponse to request(id, payload).
func check(response []byte, id string, payload []byte) error {
	if got := string(find(response, 3)); got != id {
		return fmt.Errorf("answer %q to request %q", got, id)
	}
	if !bytes.Equal(find(response, 6), payload) {
		return fmt.Errorf("request %s came back changed", id)
	}
	return nil
}

func unary(ctx context.Context, conn *grpc.ClientConn, id string, payload []byte) error {
	in, out := request(id, payload), []byte(nil)
	if err := conn.Invoke(ctx, infer, &in, &out); err != nil {
		return err
	}
	return check(out, id, payload)
}

func open(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, stream)
}

// One answer of ModelStreamInfer.
func receive(s grpc.ClientStream, id string, payload []byte) error {
	var out []byte
	if err := s.RecvMsg(&out); err != nil {
		return err
	}
	if text := find(out, 1); len(text) > 0 {
		return fmt.Errorf("%s", text)
	}
	return check(find(out, 2), id, payload)
}

// A stream of `count` messages each way, of which at most `ahead` are on their way.
func streamOf(ctx context.Context, conn *grpc.ClientConn, count, ahead int, payload []byte) error {
	s, err := open(ctx, conn)
	if err != nil {
		return err
	}
	room := make(chan struct{}, ahead)
	go func() {
		for i := 0; i < count; i++ {
			select {
			case room <- struct{}{}:
			case <-s.Context().Done():
				return
			}
			message := request(fmt.Sprint(i), payload)
			if s.SendMsg(&message) != nil {
				return // RecvMsg says why
			}
		}
		s.CloseSend()
	}()
	for i := 0; i < count; i++ {
		if err := receive(s, fmt.Sprint(i), payload); err != nil {
			return fmt.Errorf("message %d of %d: %w", i, count, err)
		}
		<-room
	}
	var nothing []byte
	if err := s.RecvMsg(&nothing); err != io.EOF {
		return fmt.Errorf("after the last message: %v", err)
	}
	return nil
}

// Runs work(0) … work(n-1) at once; the first error and how many there were.
func together(n int, work func(int) error) error {
	var group sync.WaitGroup
	errors := make(chan error, n)
	for i := 0; i < n; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			if err := work(i); err != nil {
				errors <- err
			}
		}(i)
	}
	group.Wait()
	close(errors)
	if failed := len(errors); failed > 0 {
		return fmt.Errorf("%d of %d failed, one with: %w", failed, n, <-errors)
	}
	return nil
}

func payload(size int) []byte {
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(i)
	}
	return p
}

type test struct {
	name string
	run  func(context.Context, *grpc.ClientConn) error
}

var tests = []test{
	{"a stream of 10,000 small messages, one at a time", func(ctx context.Context, conn *grpc.ClientConn) error {
		return streamOf(ctx, conn, 10000, 1, payload(16))
	}},
	{"a stream of 10,000 small messages, many on their way", func(ctx context.Context, conn *grpc.ClientConn) error {
		return streamOf(ctx, conn, 10000, 256, payload(16))
	}},
	{"a stream of 10,000 messages of 4 KiB", func(ctx context.Context, conn *grpc.ClientConn) error {
		return streamOf(ctx, conn, 10000, 64, payload(4<<10))
	}},
	{"8 streams of 2,000 messages at once", func(ctx context.Context, conn *grpc.ClientConn) error {
		return together(8, func(int) error { return streamOf(ctx, conn, 2000, 8, payload(1000)) })
	}},
	{"100 calls of 1 MiB at once, five times", func(ctx context.Context, conn *grpc.ClientConn) error {
		megabyte := payload(1 << 20)
		for round := 0; round < 5; round++ {
			err := together(100, func(i int) error { return unary(ctx, conn, fmt.Sprint(i), megabyte) })
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	}},
	{"5,000 calls one after the other", func(ctx context.Context, conn *grpc.ClientConn) error {
		for i := 0; i < 5000; i++ {
			if err := unary(ctx, conn, fmt.Sprint(i), payload(100)); err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return nil
	}},
	{"8 loops of 1,000 calls of up to 64 KiB", func(ctx context.Context, conn *grpc.ClientConn) error {
		return together(8, func(loop int) error {
			for i := 0; i < 1000; i++ {
				if err := unary(ctx, conn, fmt.Sprint(i), payload(i*64)); err != nil {
					return fmt.Errorf("call %d: %w", i, err)
				}
			}
			return nil
		})
	}},
	{"1,000 streams cancelled after their first answer", func(ctx context.Context, conn *grpc.ClientConn) error {
		for i := 0; i < 1000; i++ {
			inner, cancel := context.WithCancel(ctx)
			err := firstOf(inner, conn)
			cancel()
			if err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
		}
		return nil
	}},
	{"1,000 calls of a method that is not there", func(ctx context.Context, conn *grpc.ClientConn) error {
		for i := 0; i < 1000; i++ {
			in, out := request("0", payload(1000)), []byte(nil)
			if err := conn.Invoke(ctx, service+"NoSuchMethod", &in, &out); status.Code(err) != codes.Unimplemented {
				return fmt.Errorf("call %d: %v", i, err)
			}
		}
		return nil
	}},
}

func firstOf(ctx context.Context, conn *grpc.ClientConn) error {
	s, err := open(ctx, conn)
	if err != nil {
		return err
	}
	message := request("0", payload(16))
	if err := s.SendMsg(&message); err != nil {
		return err
	}
	return receive(s, "0", payload(16))
}

func run(address string, t test) error {
	conn, err := grpc.Dial(address, grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return t.run(ctx, conn)
}

func main() {
	passed, failed := 0, 0
	for _, t := range tests {
		begin := time.Now()
		if err := run(os.Args[1], t); err != nil {
			fmt.Printf("FAILED %s: %v\n", t.name, err)
			failed++
			continue
		}
		fmt.Printf("ok     %s (%v)\n", t.name, time.Since(begin).Round(time.Millisecond))
		passed++
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
