// Writes tensor data as JSON text in pieces, while the client takes it: as json_tensor.h does in one go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "marshal/json_tensor.h"
#include "msg/tensor.h"

namespace weir::marshal {

// Writes the text of write_data() piece by piece. Strings are cut between characters, so that no piece is much larger
// than was asked for. The data must have been checked (check_data).
class DataPieces {
 public:
  DataPieces(msg::Tensor tensor, BytesText text) : tensor_(std::move(tensor)), text_(text) {}
  // Appends to `out` until that has `target` bytes or more, or everything is written. False: everything is.
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

// An upper bound of the bytes that write_data() appends for this tensor. Many tensors need half of it.
uint64_t most_text(const msg::Tensor& tensor);

// Appends what write_string() puts between the quotes. `text` may be a part of a string, cut between characters.
void write_text_of_string(std::string& out, std::string_view text);

}  // namespace weir::marshal
