#include "net/fetch_response.h"

#include "wire/text.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Status;

Status refusal(int status) {
  std::string text = "its server answers with status " + std::to_string(status);
  if (status == 404 || status == 410) return failure(Code::kNotFound, std::move(text));
  if (status >= 300 && status < 400) text += "; redirects are not followed";
  return failure(Code::kUnavailable, std::move(text));
}

}  // namespace

Status FetchResponse::too_large() const {
  return failure(Code::kResourceExhausted, "it is larger than " + std::to_string(max_body_) + " bytes");
}

Status FetchResponse::feed(std::string_view bytes) {
  Status s = answer_.feed(bytes, *this);
  if (s.text.starts_with("not HTTP")) s.text = "its server's answer is " + s.text;
  return s;
}

Status FetchResponse::on_head(int status, const wire::Fields& fields) {
  if (status != 200) return refusal(status);
  if (answer_.announced() >= 0 && uint64_t(answer_.announced()) > max_body_) return too_large();
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].name == "content-encoding" && !wire::same_text(fields[i].value, "identity"))
      return failure(Code::kUnavailable, "its server has coded the content, though asked not to");
  return {};
}

Status FetchResponse::on_body(std::string_view piece) {
  if (body_.size() + piece.size() > max_body_) return too_large();
  body_.append(piece);
  return {};
}

Status FetchResponse::end() {
  return answer_.end().ok() ? Status{}
                            : failure(Code::kUnavailable, "its server has closed before the end of the answer");
}

}  // namespace weir::net
