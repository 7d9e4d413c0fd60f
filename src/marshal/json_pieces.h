// Tensor data as JSON text that is made while its reader takes it: the writing half of json_tensor.h, bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "marshal/json_tensor.h"
#include "msg/tensor.h"

namespace weir::marshal {

// A tensor's data as JSON, piece by piece: what write_data() writes at once. Strings are cut between characters, so
// that no piece is much larger than was asked for. The data must have been checked.
class DataPieces {
 public:
  DataPieces(msg::Tensor tensor, BytesText text) : tensor_(std::move(tensor)), text_(text) {}
  // Appends to `out` until that has `target` bytes or more, or all is written. False: all is.
  bool write(std::string& out, size_t target);
  const msg::Tensor& tensor() const { return tensor_; }

 private:
  void write_cells(std::string& out, size_t target);
  void write_strings(std::string& out, size_t target);
  void write_part(std::string& out);
  void separate(std::string& out);

  msg::Tensor tensor_;
  BytesText text_;
  size_t at_ = 0;    // of the data
  size_t left_ = 0;  // of the string that has been begun
  bool begun_ = false, first_ = true, inside_ = false, done_ = false;
};

// At most what write_data() appends for this tensor, in bytes: for who must know before it is written. Many tensors
// need half of it.
uint64_t most_text(const msg::Tensor& tensor);

// Appends what write_string() puts between the quotes. `text` may be a part of a string, cut between characters.
void write_text_of_string(std::string& out, std::string_view text);

}  // namespace weir::marshal
