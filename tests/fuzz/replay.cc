// Runs a fuzz target over every file of the folders (or files) named on the command line. `--mutate N [--seed S]` then
// runs it over N random mutations of them: blind, but in any build; libFuzzer (./dev fuzz) is the one that looks where
// it goes. What is running when the target aborts is written to `mutant` in the current folder.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string running;

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

void on_fault(int signal) {
  if (std::FILE* file = std::fopen("mutant", "wb")) {
    std::fwrite(running.data(), 1, running.size(), file);
    std::fclose(file);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& inputs, uint64_t seed) : inputs_(inputs), random_(seed) {}

  std::string next() {
    std::string out = inputs_[draw(inputs_.size())];
    for (size_t i = 0, n = 1 + draw(6); i < n; ++i) change(out);
    if (out.size() > 16384) out.resize(16384);
    return out;
  }

 private:
  size_t draw(size_t n) { return n == 0 ? 0 : random_() % n; }
  void change(std::string& out) {
    const std::string& other = inputs_[draw(inputs_.size())];
    size_t at = draw(out.size() + 1), from = draw(other.size() + 1);
    switch (draw(8)) {
      case 0: at < out.size() ? void(out[at] = char(draw(256))) : void(); break;
      case 1: at < out.size() ? void(out[at] = char(out[at] ^ (1 << draw(8)))) : void(); break;
      case 2: out.insert(at, 1 + draw(4), char(draw(2) ? draw(256) : 0xff)); break;
      case 3: out.erase(at, 1 + draw(8)); break;
      case 4: out.insert(at, other, from, 1 + draw(64)); break;
      case 5: out.replace(at, std::string::npos, other, from, std::string::npos); break;
      case 6: out.insert(at, std::string(out, from < out.size() ? from : 0, 1 + draw(32))); break;
      default: out.insert(at, std::string{char(0xff), char(draw(256))});
    }
  }

  const std::vector<std::string>& inputs_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> inputs;
  uint64_t mutations = 0, seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (i + 1 < argc && !std::strcmp(argv[i], "--mutate")) {
      mutations = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && !std::strcmp(argv[i], "--seed")) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (!std::filesystem::is_directory(argv[i])) {
      inputs.push_back(content(argv[i]));
    } else {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
        if (entry.is_regular_file()) inputs.push_back(content(entry.path()));
    }
  }
  for (const auto& input : inputs) run(input);
  std::printf("%zu inputs\n", inputs.size());
  if (inputs.empty()) return 1;
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, on_fault);
  Mutator mutator(inputs, seed);
  for (uint64_t i = 0; i < mutations; ++i) run(running = mutator.next());
  if (mutations > 0)
    std::printf("%llu mutations of them, seed %llu\n", static_cast<unsigned long long>(mutations),
                static_cast<unsigned long long>(seed));
  return 0;
}
