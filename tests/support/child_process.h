// Real processes of a test, made by fork(): the program that makes them has no other threads.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>

#include "planner/core/error.h"

namespace zplan::testing_support {

// A child process and the pipe it reports by.
class Child {
 public:
  using Tell = std::function<void()>;  // that something has come to pass
  explicit Child(const std::function<std::string(const Tell&)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw Error(ExitCode::kDevice, "no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      std::string report;
      try {
        report = body([&] { write_all(ends[1], "+"); });
      } catch (const std::exception& error) {
        report = error.what();
      }
      write_all(ends[1], report);
      ::_exit(0);
    }
    ::close(ends[1]);
    report_ = ends[0];
  }
  Child(Child&& other) noexcept : process_(other.process_), report_(other.report_) {
    other.process_ = other.report_ = -1;
  }
  ~Child() {
    if (process_ > 0) wait();
  }

  void signal(int number) const { ::kill(process_, number); }
  // Until it has told once.
  void await() const {
    char mark = 0;
    ASSERT_EQ(::read(report_, &mark, 1), 1);
    ASSERT_EQ(mark, '+');
  }
  // What it reported; waits for its end.
  std::string wait() {
    std::string text;
    char piece[512];
    for (ssize_t n = 0; (n = ::read(report_, piece, sizeof piece)) > 0;)
      text.append(piece, static_cast<std::size_t>(n));
    ::close(report_);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
    return text;
  }

 private:
  static void write_all(int pipe, const std::string& text) {
    if (::write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(1);
  }

  pid_t process_ = -1;
  int report_ = -1;
};

}  // namespace zplan::testing_support
