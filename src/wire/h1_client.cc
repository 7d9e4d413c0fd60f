// The HTTP/1.1 client: one request at a time, over a connection that stays. See client_codec.h.
#include <algorithm>
#include <utility>

#include "wire/client_codec.h"
#include "wire/h1_response.h"
#include "wire/h2_output.h"

namespace weir::wire {
namespace {

class H1Client final : public ClientCodec, private ResponseListener {
 public:
  bool has_room() const override { return !answer_ && !finished_; }
  void send(const ClientRequest& request, ClientAnswer& answer) override;
  void cancel(ClientAnswer& answer) override;
  void consume(ClientAnswer& answer, size_t n) override;
  bool wants_read() const override { return held_ < kMostHeld; }
  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> receive_buffer() override;
  void closed(const base::Status& why) override;
  size_t pending(std::span<iovec> out) override { return output_.gather(out); }
  void consumed(size_t n) override { output_.consumed(n); }
  bool finished() const override { return finished_; }
  bool idle() const override { return answer_ == nullptr; }

 private:
  base::Status on_head(int status, const Fields& fields) override;
  base::Status on_body(std::string_view piece) override;
  static constexpr size_t kMostHeld = 1 << 20;
  void end();
  void fail(const base::Status& why);

  H2Output output_;  // which knows nothing of HTTP/2
  H1Response response_{kMostFields};
  ClientAnswer* answer_ = nullptr;
  size_t held_ = 0;  // bytes of its body that wait for consume()
  bool finished_ = false;
};

void H1Client::send(const ClientRequest& request, ClientAnswer& answer) {
  std::string head = request.method + ' ' + request.target + " HTTP/1.1\r\nhost: " + request.authority + "\r\n";
  for (const auto& [name, value] : request.fields_of_form()) ((((head += name) += ": ") += value) += "\r\n");
  for (size_t i = 0; i < request.fields.size(); ++i)
    ((((head += request.fields[i].name) += ": ") += request.fields[i].value) += "\r\n");
  const size_t size = request.body_size();
  if (size > 0 || request.method == "POST" || request.method == "PUT")
    head += "content-length: " + std::to_string(size) + "\r\n";
  head += "\r\n";
  constexpr size_t kCopyBelow = 4096;
  output_.copy(head.data(), head.size());
  auto put = [&](const base::Bytes& piece) {
    if (piece.size() < kCopyBelow)
      output_.copy(piece.data(), piece.size());
    else
      output_.refer(piece);
  };
  put(request.body);
  for (const auto& piece : request.more) put(piece);
  response_.begin(request.method == "HEAD" ? H1Response::Body::kNone : H1Response::Body::kAsFramed);
  answer_ = &answer;
  held_ = 0;
}

void H1Client::cancel(ClientAnswer& answer) {
  if (answer_ != &answer) return;
  answer_ = nullptr;
  finished_ = true;
}

void H1Client::consume(ClientAnswer& answer, size_t n) {
  if (answer_ == &answer) held_ -= std::min(n, held_);
}

// Bytes without a request are an answer to nothing: whoever sends them cannot be asked again.
void H1Client::feed(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!answer_ && !text.empty()) finished_ = true;
  if (finished_) return;
  if (base::Status s = response_.feed(text, *this); !s.ok()) return fail(s);
  if (!response_.done()) return;
  if (!response_.reusable() || !text.empty()) finished_ = true;
  end();
}

std::span<std::byte> H1Client::receive_buffer() {
  if (!answer_ || finished_ || response_.body_to_come() == 0) return {};
  const auto to = answer_->receive_buffer();
  return to.first(size_t(std::min<uint64_t>(to.size(), response_.body_to_come())));
}

void H1Client::closed(const base::Status& why) {
  finished_ = true;
  output_.clear();
  if (!answer_) return;
  if (response_.end().ok()) return end();
  fail(why);
}

base::Status H1Client::on_head(int status, const Fields& fields) {
  answer_->on_head(status, fields);
  return {};
}

// The answer may be cancelled meanwhile.
base::Status H1Client::on_body(std::string_view piece) {
  if (answer_) held_ += piece.size() - answer_->on_body(std::as_bytes(std::span(piece)));
  return {};
}

void H1Client::end() {
  if (auto* answer = std::exchange(answer_, nullptr)) answer->on_end({});
}

void H1Client::fail(const base::Status& why) {
  finished_ = true;
  base::Status status = why;
  if (status.text.starts_with("not HTTP")) status.text = "the answer is " + status.text;
  if (auto* answer = std::exchange(answer_, nullptr)) answer->on_failed(status);
}

}  // namespace

std::unique_ptr<ClientCodec> make_h1_client() { return std::make_unique<H1Client>(); }

}  // namespace weir::wire
