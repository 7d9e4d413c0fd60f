// Many numbers at once, from JSON to memory: the short ways of json_tensor.h, for runs of elements without a call, a
// check and a copy each. A REST request of 16 floats takes 25,000 instructions in the tests' build; one element at a
// time 5,300 of them were spent on its numbers, both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::marshal {

// Reads "1.5, 2.5,3e-7" from the front of `text`, up to `most` numbers, rounded correctly: of up to 15 digits, and
// where has_avx2() (avx2.h) of up to 18 without an exponent. Where `to` takes whole ones: those that fit, without an
// exponent.
// `*used`: the characters up to behind the last one that was read. Returns how many were; the next one is of another
// kind, or there is none.
size_t read_run(std::string_view text, float* to, size_t most, size_t* used);
size_t read_run(std::string_view text, double* to, size_t most, size_t* used);
size_t read_run(std::string_view text, int8_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, int16_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, int32_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, int64_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, uint8_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, uint16_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, uint32_t* to, size_t most, size_t* used);
size_t read_run(std::string_view text, uint64_t* to, size_t most, size_t* used);

}  // namespace weir::marshal
