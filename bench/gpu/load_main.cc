// Load for the GPU's figures (H3 to H8): `gpu_load KIND name=value…`, one JSON object on standard output.
//
//   sse | grpc  port model prompt tokens vocabulary     streams of tokens; sse: top_p (0: the likeliest token)
//   tensors     port model rows row_bytes               large inputs, a small answer
//   encode      port model prompt vocabulary            ids in, an embedding out
//   post | unary  port path body                        the same request again and again: a file's JSON, a file's
//   message
//     with  connections, streams (of a gRPC connection), requests, rate (per second, at random times; 0: the next when
//     one is over), limit (seconds), threads, seed
//   bare        threads bytes seconds                   what the loopback carries, without a server
//
// Exit 1: not a single answer was right, or the load could not be made.
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "bare.h"
#include "traffic.h"

namespace {

using namespace weir::load;

class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      std::string word = argv[i];
      size_t equals = word.find('=');
      if (equals == word.npos) fail("name=value is expected, not " + word);
      all_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string text(const std::string& name) {
    auto found = all_.find(name);
    if (found == all_.end()) fail(name + " is missing");
    std::string value = found->second;
    all_.erase(found);
    return value;
  }
  double number(const std::string& name, double otherwise) {
    if (!all_.contains(name)) return otherwise;
    std::string value = text(name);
    char* end = nullptr;
    double n = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != 0 || !(n >= 0)) fail(name + " is no number");
    return n;
  }
  void done() {
    if (!all_.empty()) fail("nobody knows " + all_.begin()->first);
  }

 private:
  std::map<std::string, std::string> all_;
};

std::string file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("there is no file " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

RequestSpec read_spec(const std::string& kind, Arguments& words) {
  RequestSpec spec;
  if (kind == "post" || kind == "unary") {
    spec.kind = kind == "post" ? RequestSpec::Kind::kPost : RequestSpec::Kind::kUnary;
    spec.path = words.text("path"), spec.body = file(words.text("body"));
    return spec;
  }
  if (kind == "grpc")
    spec.kind = RequestSpec::Kind::kGrpc;
  else if (kind == "tensors")
    spec.kind = RequestSpec::Kind::kTensors;
  else if (kind == "encode")
    spec.kind = RequestSpec::Kind::kEncode;
  else if (kind != "sse")
    fail("no such kind of load: " + kind);
  spec.model = words.text("model");
  spec.prompt = uint32_t(words.number("prompt", 1)), spec.tokens = uint32_t(words.number("tokens", 1));
  spec.vocabulary = uint32_t(words.number("vocabulary", 256));
  spec.rows = uint32_t(words.number("rows", 1)), spec.row_bytes = uint64_t(words.number("row_bytes", 4));
  spec.top_p = words.number("top_p", 0);
  if (spec.top_p > 1 || (spec.top_p > 0 && spec.kind != RequestSpec::Kind::kSse))
    fail("top_p is of sse, and at most 1");
  if (spec.vocabulary < 4) fail("a vocabulary of 4 at least is expected");
  return spec;
}

// Its share, of so many.
uint64_t share(uint64_t all, uint32_t index, uint32_t of) { return all / of + (index < all % of); }

LoadResults run_all(const RequestSpec& spec, const Plan& plan, uint32_t threads) {
  std::vector<LoadResults> of_threads(threads);
  std::vector<std::thread> all;
  std::barrier ready(threads);
  for (uint32_t i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      Plan own = plan;
      own.connections = uint32_t(share(plan.connections, i, threads));
      own.requests = share(plan.requests, i, threads);
      own.rate = plan.rate / threads, own.seed = plan.seed * 1000 + i;
      Work work(spec, own.seed);
      of_threads[i] = run(own, work, [&] { ready.arrive_and_wait(); });
    });
  for (auto& thread : all) thread.join();
  LoadResults out;
  for (auto& results : of_threads) out.add(std::move(results));
  return out;
}

void print(const char* name, std::vector<double>& times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  auto at = [&](double q) { return times[std::min(times.size() - 1, size_t(q * double(times.size())))]; };
  double sum = 0;
  for (double t : times) sum += t;
  std::printf(",\"%s\":{\"mean\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g,\"p999\":%.6g,\"most\":%.6g}", name,
              sum / double(times.size()), at(0.5), at(0.9), at(0.99), at(0.999), times.back());
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int load(const std::string& kind, Arguments& words) {
  RequestSpec spec = read_spec(kind, words);
  Plan plan;
  plan.port = uint16_t(words.number("port", 8080));
  plan.connections = uint32_t(words.number("connections", 1)), plan.streams = uint32_t(words.number("streams", 1));
  plan.requests = uint64_t(words.number("requests", 1));
  plan.rate = words.number("rate", 0), plan.limit = words.number("limit", 60);
  plan.seed = uint32_t(words.number("seed", 1));
  auto threads = uint32_t(words.number("threads", 1));
  words.done();
  if (plan.streams > 1 && !spec.is_grpc()) fail("streams are gRPC's");
  if (threads == 0 || plan.connections < threads || plan.streams == 0) fail("a connection per thread is the least");
  LoadResults results = run_all(spec, plan, threads);
  double seconds = std::max(results.seconds(), 1e-9);
  std::printf("{\"requests\":%llu,\"failed\":%llu,\"cut\":%s,\"seconds\":%.6g,\"requests_per_s\":%.6g",
              static_cast<unsigned long long>(results.done), static_cast<unsigned long long>(results.failed),
              results.cut ? "true" : "false", seconds, double(results.done) / seconds);
  std::printf(",\"tokens\":%llu,\"tokens_per_s\":%.6g,\"bytes_per_s\":%.6g,\"client_cpu\":%.3g",
              static_cast<unsigned long long>(results.tokens), double(results.tokens) / seconds,
              double(results.done) * double(spec.rows) * double(spec.row_bytes) / seconds,
              cpu_seconds() / seconds / threads);
  print("ttft_ms", results.first), print("itl_ms", results.gaps), print("latency_ms", results.whole);
  std::printf("}\n");
  return results.done > 0 ? 0 : 1;
}

int bare(Arguments& words) {
  auto threads = uint32_t(words.number("threads", 1));
  auto bytes = size_t(words.number("bytes", 602112));
  double seconds = words.number("seconds", 2);
  words.done();
  if (threads == 0 || bytes == 0) fail("one thread and one byte are the least");
  std::printf("{\"bytes_per_s\":%.6g}\n", loopback(threads, bytes, seconds));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("KIND name=value…");
  std::string kind = argv[1];
  Arguments words(argc, argv);
  return kind == "bare" ? bare(words) : load(kind, words);
}
