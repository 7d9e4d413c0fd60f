// The ceiling of `batching_full`: bare_echo with the model in its own thread. Rows of all requests that have come are
// laid side by side, run as one batch of up to 32, and answered; nobody is woken, nothing is looked at. What weir does
// on top of this is decoding, the hop to a lane and back, and encoding.
//
// usage: bare_batches PORT MODEL.onnx
// The model is one of bench/load/full_batches.py's. A row is the last bytes of a request's body.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bare_server.h"
#include "engines/onnx/error.h"
#include "engines/onnx/library.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/session.h"
#include "engines/onnx/signature.h"
#include "engines/onnx/tensors.h"

namespace {

using namespace weir;

constexpr size_t kRows = 32, kClasses = 10;

class Model {
 public:
  explicit Model(const std::string& path) {
    auto library = onnx::open_library(onnx::library_places("")).value();
    const std::string file = onnx::ModelFile::open(path).value().read().value();
    const auto summary = onnx::inspect(file).value();
    session_ = onnx::Session::make(library, {}, file, summary, {}, "bare").value();
    msg::ModelSpec wanted;
    wanted.max_batch = kRows;
    pixels_ = size_t(onnx::derive(session_->signature(), wanted).value().inputs.front().shape[0]);
    in_.resize(kRows * pixels_);
  }

  size_t row_bytes() const { return pixels_ * sizeof(float); }
  float* row(size_t i) { return in_.data() + i * pixels_; }
  const float* answer(size_t i) const { return out_.data() + i * kClasses; }

  void run(size_t rows) {
    const onnx::Library& library = session_->library();
    auto wrapped = [&](std::vector<float>& data, size_t columns) {
      return onnx::wrap(library, msg::DType::kFp32, {int64_t(rows), int64_t(columns)},
                        reinterpret_cast<std::byte*>(data.data()), rows * columns * sizeof(float))
          .value();
    };
    auto in = wrapped(in_, pixels_), out = wrapped(out_, kClasses);
    const char *in_name = "image", *out_name = "probabilities";
    const onnx::OrtValue* input = in.get();
    onnx::OrtValue* output = out.get();
    auto status = onnx::to_status(library.api, library.api.run(session_->raw(), session_->run_options(), &in_name,
                                                               &input, 1, &out_name, 1, &output));
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.text.c_str()), std::exit(1);
  }

 private:
  std::shared_ptr<const onnx::Session> session_;
  size_t pixels_ = 0;
  std::vector<float> in_, out_ = std::vector<float>(kRows * kClasses);
};

// The gRPC frame of a ModelInferResponse: as many bytes around the numbers as weir sends there.
std::string message(const float* numbers) {
  constexpr size_t kAround = 57;
  std::string out(5 + kAround, '\0');
  out.append(reinterpret_cast<const char*>(numbers), kClasses * sizeof(float));
  out[4] = char(out.size() - 5);
  return out;
}

// Answers as many requests as fit in a batch, the eldest first. Their connections are written once each.
void run_batch(Model& model, std::vector<bare::Stream*>& waiting) {
  const size_t rows = std::min(waiting.size(), kRows);
  for (size_t i = 0; i < rows; ++i) {
    const auto& body = waiting[i]->body;
    std::memcpy(model.row(i), body.data() + body.size() - model.row_bytes(), model.row_bytes());
  }
  model.run(rows);
  std::vector<bare::Connection*> dirty;
  for (size_t i = 0; i < rows; ++i) {
    auto& connection = waiting[i]->of;
    waiting[i]->body = message(model.answer(i));
    connection.answer(*waiting[i]);
    if (std::find(dirty.begin(), dirty.end(), &connection) == dirty.end()) dirty.push_back(&connection);
  }
  waiting.erase(waiting.begin(), waiting.begin() + ptrdiff_t(rows));
  for (auto* connection : dirty) connection->flush();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  boost::asio::io_context loop(1);
  std::vector<bare::Stream*> waiting;  // clients stay until they have their answers
  const bare::OnRequest collect = [&](bare::Stream& stream) { waiting.push_back(&stream); };
  bare::tcp::acceptor acceptor(loop, {boost::asio::ip::address_v4::loopback(), uint16_t(std::atoi(argv[1]))});
  bare::accept(acceptor, collect);
  Model model(argv[2]);
  for (;;) {
    if (waiting.empty()) loop.run_one();
    loop.poll();
    if (!waiting.empty()) run_batch(model, waiting);
  }
}
