// A process that has hardly any file descriptors left, as long as this lives. One at a time.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace weir::test {

class FewDescriptors {
 public:
  // `left`: so many more can be opened.
  explicit FewDescriptors(int left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    int last = -1;
    for (int i = 0; i <= left; ++i) taken_.push_back(last = ::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit few{rlim_t(last), before_.rlim_max};  // descriptors are taken from below, and all below the last one are
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd : taken_) ::close(fd);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace weir::test
