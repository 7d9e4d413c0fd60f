// Shortage: what is said when the machine does not give what the server needs: memory, address space, threads.
#pragma once

#include <exception>
#include <string>

namespace weir::app {

// One line for standard error: what is short, which limit stands in the way as far as that can be seen, and what to
// change. For std::bad_alloc and for the std::system_error of a thread; of others what they say.
std::string shortage(const std::exception& why);

// From now on an exception that nobody catches ends the process with that line: for want of memory or threads by exit
// code 1, for anything else by abort(), since it is an error of ours.
void end_in_words();
// For who is about to throw std::bad_alloc: ends the process with that line where end_in_words() was not called yet,
// since what runs before main() (the initialisers of libraries) catches nothing, and may find no memory for an
// exception.
void end_before_words();

}  // namespace weir::app
