// FormData: the fields of a request that a web page, or `curl -d k=v` and `curl -F k=@file`, sends.
//
//   application/x-www-form-urlencoded   k=v&k=v, '+' a blank, %XX a byte; a '%' that begins no escape is itself
//   multipart/form-data; boundary=B     marshal/multipart.h
//
// A form has at most kMaxFields fields and a part at most kMaxPartHead bytes of lines before its octets; what is beyond
// is refused. Parts are not copied; multipart inside of a part is octets as any other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "marshal/multipart.h"

namespace weir::grps {

class FormData {
 public:
  static constexpr size_t kMaxFields = marshal::kMaxFormFields, kMaxPartHead = marshal::kMaxPartHead;

  struct Field {
    enum class Type : uint8_t { kText, kOctets };  // kOctets: a part that says application/octet-stream
    std::string name;
    base::Bytes value;
    Type type = Type::kText;
  };

  // Whether a body of this Content-Type is a form.
  static bool is_one(std::string_view content_type);
  // Errors: INVALID_ARGUMENT, also for a Content-Type that is no form's.
  static base::Result<FormData> read(std::string_view content_type, const base::Bytes& body);

  // The first field of that name; null where there is none.
  const Field* find(std::string_view name) const;
  const std::vector<Field>& fields() const { return fields_; }

 private:
  base::Status read_pairs(std::string_view body);
  base::Status read_parts(std::string_view content_type, const base::Bytes& body);
  base::Status read_part(std::string_view head, base::Bytes octets);

  std::vector<Field> fields_;
};

// The first value of `name` in a query or an urlencoded form; "" where there is none.
std::string query_field(std::string_view pairs, std::string_view name);

}  // namespace weir::grps
