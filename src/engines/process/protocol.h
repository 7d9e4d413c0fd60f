// The protocol between the server and a child that runs a model: see README.md for how to write a child.
//
// A child is started with a SOCK_SEQPACKET socket as descriptor 3 and, where it is given a script, that as descriptor
// 4. Standard output and error go to the server's log. Each packet is one Message of 32 bytes; what it is about is a
// document in shared memory, which `offset` and `size` point to. Two regions of shared memory are memfds that the
// server makes, seals against changes of their size, and sends with kInputRegion and kOutputRegion (SCM_RIGHTS): the
// server writes the first and the child the second. A region replaces the one that was sent before, also while nothing
// runs: then it is smaller.
//
// Numbers are little-endian. Documents have no padding:
//   string   = u32 bytes, the bytes
//   spec     = string name, u8 dtype, u8 optional, u32 rank, rank × i64 (-1: any)
//   model    = u32 1 (the version of the protocol), string name, string version, string file, string instance,
//              u32 max_batch, u8 decoupled, u8 dynamic_batching, list of (string, string) parameters,
//              list of spec inputs, list of spec outputs
//   ready    = u32 max_batch, u8 decoupled, u8 dynamic_batching, list of spec inputs, list of spec outputs
//   tensor   = string name, u8 dtype, u32 rank, rank × i64, u64 offset, u64 size (of its data, in the same region)
//   value    = u8 kind (0 bool, 1 i64, 2 u64, 3 f64, 4 string), 8 bytes or a string
//   requests = list of (u64 call, string id, u32 rows, u64 timeout in µs or 0, list of (string, value) parameters,
//              list of string outputs that are wanted (none: all), list of tensor)
//   call     = string model, string version (empty: the newest), string id, list of (string, value) parameters,
//              list of string outputs that are wanted, list of tensor
//   answers  = list of (u64 call, u8 kind, and for an error u32 code, string text; for kTensors list of (string, value)
//              parameters, list of tensor)
//   list     = u32 n, n × …
//
// Descriptor 5 is another such socket, for what a child asks of the server apart from batches, at any time. A packet is
// a Message and, behind it, the `size` bytes of its document, of which there are kLongestPart at most:
//   family   = string name, string description, u8 kind (0 counter, 1 gauge, 2 histogram)
//   metric   = u64 family, list of (string, string) labels, list of f64 (upper bounds of a histogram's buckets)
//   load     = string model, list of (string, string) parameters ("config", "file:1/model.onnx" with its bytes)
//   unload   = string model, u8 dependents too
//   reply    = u32 code, and for 0 what is said below, else string text
//   state    = u8 ready, string why it is not
// dtype is msg::DType's number (1 BOOL … 13 BYTES, 14 BF16), of which 1 to 13 are Triton's; codes are gRPC's. BYTES
// hold each element as u32 and its bytes. Data of tensors begins at multiples of 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::process {

inline constexpr int kSocketFd = 3, kScriptFd = 4, kSideFd = 5;
inline constexpr size_t kLongestPart = 32 << 10;  // bytes of a packet on kSideFd, behind its Message
inline constexpr uint32_t kProtocol = 1;
inline constexpr const char* kMostAnswer = "1GiB";  // of the output region, where the model does not say

enum class Type : uint32_t {
  // To the child.
  kInputRegion = 1,   // size; with a descriptor
  kOutputRegion = 2,  // size; with a descriptor
  kLoad = 3,          // a model; the answer is kReady or kFailed
  kRun = 4,           // number, requests; the answer is kAnswers, of a decoupled model kReturned
  kCancel = 5,        // number: the call that nobody waits for any more
  kStop = 6,          // finish, and exit
  kTaken = 7,         // the output region is the child's again, after kAnswer
  kCredit = 8,        // number: the call; size: how many more answers the child may send to it
  kReplyRegion = 9,  // size; with a descriptor: the tensors of the next kExecuted, to keep for as long as they are used
  kExecuted = 10,    // number: that of kExec; answers, of one, in the reply region. With kMany others follow kTensors
  kNoRoom = 11,      // in place of kOutputRegion, after kGrow: there is no memory to share. What needed it is to fail
  // To the server.
  kReady = 33,     // a ready
  kFailed = 34,    // the text says why the model was not loaded
  kAnswers = 35,   // number: that of kRun; answers, one for each request, in any order
  kGrow = 36,      // the child needs an output region of `size` bytes; kOutputRegion follows, or kNoRoom
  kReturned = 37,  // number: that of kRun. Of a decoupled model: it takes the next one
  kExec = 39,      // number: the child's own; a call to another model, in the output region until kTaken
  kTook = 40,      // number: that of kExec with kMany; size: how many of its answers the child has read
  kForget = 41,    // number: the same; no more answers are to be made. The child reads some with kMany, or none
  kAnswer = 38,    // answers: one, of a decoupled model. The output region is the server's until kTaken
  kWorks = 42,     // of a decoupled model. number: 1 where its time limit runs anew from here, 0 where it waits
  // To the server, on descriptor 5. `number`: the child's own, which its kReply has, too; or that of a metric.
  kMetricFamily = 64,     // a family; reply: u64 its number
  kMetric = 65,           // a metric; reply: u64 its number
  kMetricValue = 66,      // u64 metric; reply: f64
  kMetricIncrement = 67,  // number: the metric's; f64. No reply, as to the next three
  kMetricSet = 68,
  kMetricObserve = 69,
  kForgetFamily = 70,  // number: the family's
  kLoadModel = 71,     // a load, in parts of which all but the last have kMore; reply: when it is loaded
  kUnloadModel = 72,   // an unload; reply: when no shard has it any more
  kModelReady = 73,    // string model, string version (or empty); reply: u8
  kReadiness = 74,     // number: that of kIsReady; a state
  // To the child, on descriptor 5.
  kReply = 96,    // number: that of the request; a reply
  kIsReady = 97,  // number: the server's own; kReadiness follows when the model has said it. One at a time
};

// Flags of kAnswers and kReturned.
inline constexpr uint32_t kKept = 1;  // the model still uses the inputs: the server is to send another input region

// Flags of kAnswers, kAnswer and kReturned.
inline constexpr uint32_t kCounted = 4;  // the model has sent kMetric… on descriptor 5 before

// Flags of kAnswer.
inline constexpr uint32_t kLarge = 16;  // it costs cost_of() of the credit, and not one

// Flags of kReady.
inline constexpr uint32_t kSaysReady = 32;  // the model says itself whether it is ready: the child takes kIsReady

// Flags of kLoadModel.
inline constexpr uint32_t kMore = 8;  // the document goes on in the next packet

// Flags of kExec and kForget.
inline constexpr uint32_t kMany = 2;  // the other model may answer any number of times; those that it has made are read

enum class AnswerKind : uint8_t {
  kError = 0,
  kTensors = 1,
  kEnd = 2,            // of a decoupled model: there are no more
  kTensorsAndEnd = 3,  // the same, with the last one
  kOneError = 4        // of a decoupled model: an error in place of one of several answers
};

// A parameter of a model.py whose configuration has sequence_batching.iterative_sequence: how many requests take part
// in its executions at once, 0 for max_batch; then of each control input its name, its kind (START, READY, END or
// CORRID), the DType's number, and a flag's two values. "\x1f" stands between them. No configuration can have a
// parameter of this name.
inline constexpr const char* kIterative = "\x1fiterative_sequence";

// Answers that a child may send to one call of a decoupled model before it gets kCredit, and that it gets to a call of
// its own before it has sent kTook. An answer may go while there is any credit, and one with kLarge may leave less than
// none: so a child that sets it on large answers is not far ahead in bytes either.
inline constexpr uint32_t kWindow = 16;
inline constexpr uint64_t kLargePart = 64 << 10;

struct Message {
  Type type{};
  uint32_t flags = 0;
  uint64_t number = 0, offset = 0, size = 0;
};
static_assert(sizeof(Message) == 32);

// The cost of a kAnswer, which it takes of the credit, where `offset` and `size` lie in the region.
inline uint32_t cost_of(const Message& answer) {
  return 1 + ((answer.flags & kLarge) != 0 ? uint32_t((answer.offset + answer.size) / kLargePart) : 0);
}

}  // namespace weir::process
