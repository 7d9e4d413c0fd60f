// Load for the GPU's figures (H3 to H8): `gpu_load KIND name=value…`, one JSON object on standard output.
//
//   sse | grpc  port model prompt tokens vocabulary     streams of tokens
//   tensors     port model rows row_bytes               large inputs, a small answer
//   encode      port model prompt vocabulary            ids in, an embedding out
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

Wish read_wish(const std::string& kind, Arguments& words) {
  Wish wish;
  if (kind == "grpc")
    wish.kind = Wish::Kind::kGrpc;
  else if (kind == "tensors")
    wish.kind = Wish::Kind::kTensors;
  else if (kind == "encode")
    wish.kind = Wish::Kind::kEncode;
  else if (kind != "sse")
    fail("no such kind of load: " + kind);
  wish.model = words.text("model");
  wish.prompt = uint32_t(words.number("prompt", 1)), wish.tokens = uint32_t(words.number("tokens", 1));
  wish.vocabulary = uint32_t(words.number("vocabulary", 256));
  wish.rows = uint32_t(words.number("rows", 1)), wish.row_bytes = uint64_t(words.number("row_bytes", 4));
  if (wish.vocabulary < 4) fail("a vocabulary of 4 at least is expected");
  return wish;
}

// Its share, of so many.
uint64_t share(uint64_t all, uint32_t index, uint32_t of) { return all / of + (index < all % of); }

Tally run_all(const Wish& wish, const Plan& plan, uint32_t threads) {
  std::vector<Tally> tallies(threads);
  std::vector<std::thread> all;
  std::barrier ready(threads);
  for (uint32_t i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      Plan own = plan;
      own.connections = uint32_t(share(plan.connections, i, threads));
      own.requests = share(plan.requests, i, threads);
      own.rate = plan.rate / threads, own.seed = plan.seed * 1000 + i;
      Work work(wish, own.seed);
      tallies[i] = run(own, work, [&] { ready.arrive_and_wait(); });
    });
  for (auto& thread : all) thread.join();
  Tally out;
  for (auto& tally : tallies) out.add(std::move(tally));
  return out;
}

void print(const char* name, std::vector<double>& times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  auto at = [&](double q) { return times[std::min(times.size() - 1, size_t(q * double(times.size())))]; };
  double sum = 0;
  for (double t : times) sum += t;
  std::printf(",\"%s\":{\"mean\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g,\"most\":%.6g}", name,
              sum / double(times.size()), at(0.5), at(0.9), at(0.99), times.back());
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int load(const std::string& kind, Arguments& words) {
  Wish wish = read_wish(kind, words);
  Plan plan;
  plan.port = uint16_t(words.number("port", 8080));
  plan.connections = uint32_t(words.number("connections", 1)), plan.streams = uint32_t(words.number("streams", 1));
  plan.requests = uint64_t(words.number("requests", 1));
  plan.rate = words.number("rate", 0), plan.limit = words.number("limit", 60);
  plan.seed = uint32_t(words.number("seed", 1));
  auto threads = uint32_t(words.number("threads", 1));
  words.done();
  if (plan.streams > 1 && wish.kind != Wish::Kind::kGrpc) fail("streams are gRPC's");
  if (threads == 0 || plan.connections < threads || plan.streams == 0) fail("a connection per thread is the least");
  Tally tally = run_all(wish, plan, threads);
  double seconds = std::max(tally.seconds(), 1e-9);
  std::printf("{\"requests\":%llu,\"failed\":%llu,\"cut\":%s,\"seconds\":%.6g,\"requests_per_s\":%.6g",
              static_cast<unsigned long long>(tally.done), static_cast<unsigned long long>(tally.failed),
              tally.cut ? "true" : "false", seconds, double(tally.done) / seconds);
  std::printf(",\"tokens\":%llu,\"tokens_per_s\":%.6g,\"bytes_per_s\":%.6g,\"client_cpu\":%.3g",
              static_cast<unsigned long long>(tally.tokens), double(tally.tokens) / seconds,
              double(tally.done) * double(wish.rows) * double(wish.row_bytes) / seconds,
              cpu_seconds() / seconds / threads);
  print("ttft_ms", tally.first), print("itl_ms", tally.gaps), print("latency_ms", tally.whole);
  std::printf("}\n");
  return tally.done > 0 ? 0 : 1;
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
