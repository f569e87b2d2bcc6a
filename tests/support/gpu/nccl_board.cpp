// NCCL of the stand-in GPU: where members of a communicator meet. Each says once what it calls, for
// how many elements of which type, what it knows to be done, and what it brings; when all have
// come each takes what it needs. What members of other processes say comes by links (nccl_links.h).
// says:  kStart      size, device, number of devices of the process
//        kSplit      color, key
//        kCollective kind, count, type, root
//        kTransfer   count, type
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "tests/support/gpu/nccl.h"
#include "tests/support/gpu/nccl_marks.h"

namespace zplan::stand_in {
namespace {

using Meets = MeetingKey::Kind;

// A key begins with the process that made it.
int maker_of(const CommGroup& group) { return std::stoi(group.key); }

std::set<int> other_processes(const CommGroup& group) {
  std::set<int> others;
  for (const auto& [rank, process] : group.processes) others.insert(process);
  others.erase(Links::own_process());
  return others;
}

std::string text_of_collective(const Post& post) {
  return fmt::format("{} of {} elements of type {}, root {}",
                     name_of(static_cast<Kind>(post.says[0])), post.says[1], post.says[2],
                     post.says[3]);
}

std::string text_of_transfer(const MeetingKey& way, const Post& x, const Post& y) {
  const Post &from = x.seat == 0 ? x : y, &to = x.seat == 0 ? y : x;
  return fmt::format("rank {} sends {} elements of type {}, rank {} expects {} of type {}",
                     way.from, from.says[0], from.says[1], way.to, to.says[0], to.says[1]);
}

// Processes that are shown several devices count the same ones.
bool share_a_device(const Post& x, const Post& y) {
  return x.says[1] == y.says[1] && (x.process == y.process || (x.says[2] > 1 && y.says[2] > 1));
}

// What two members cannot both say.
std::optional<std::string> disagreement(const Post& x, const Post& y) {
  const MeetingKey& key = x.meeting;
  switch (key.kind) {
    case Meets::kStart:
      if (x.seat == y.seat) return fmt::format("rank {} comes twice", x.seat);
      if (x.says[0] == y.says[0]) return std::nullopt;
      return fmt::format("{} ranks of rank {}, {} of rank {}", x.says[0], x.seat, y.says[0],
                         y.seat);
    case Meets::kCollective:
      if (x.says == y.says) return std::nullopt;
      return fmt::format("operation {} is {} on rank {}, {} on rank {}", key.number,
                         text_of_collective(x), x.seat, text_of_collective(y), y.seat);
    case Meets::kTransfer:
      if (x.says == y.says) return std::nullopt;
      return text_of_transfer(key, x, y);
    default:
      return std::nullopt;
  }
}

// All have come. Who made the communicator tells them of each other.
void form(Nccl& nccl, CommGroup& group, const Posts& all) {
  group.size = all.size();
  for (const auto& [rank, post] : all) group.processes[rank] = post->process;
  const std::set<int> others = other_processes(group);
  for (const int process : others) nccl.links->open(process);
  if (maker_of(group) != Links::own_process()) return;
  for (const auto& [rank, post] : all)
    for (const int process : others)
      if (process != post->process) nccl.links->send(process, post);
}

// All members have come to the split: those of a color become a communicator.
void form_parts(Nccl& nccl, CommGroup& whole, std::size_t number, const Posts& all) {
  std::map<std::int64_t, std::vector<const Post*>> by_color;
  for (const auto& [rank, post] : all)
    if (post->says[0] != NCCL_SPLIT_NOCOLOR) by_color[post->says[0]].push_back(post.get());
  for (auto& [color, members] : by_color) {
    std::sort(members.begin(), members.end(), [](const Post* x, const Post* y) {
      return std::tie(x->says[1], x->seat) < std::tie(y->says[1], y->seat);
    });
    CommGroup& part = group_of(nccl, fmt::format("{}.{}.{}", whole.key, number, color));
    part.number = fmt::format("{}.{}", whole.number, number + 1);
    part.ranks = "of ranks";
    part.size = members.size();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const int rank = static_cast<int>(i);
      part.ranks += fmt::format(" {}", members[i]->seat);
      part.processes[rank] = members[i]->process;
      const auto own = whole.members.find(members[i]->seat);
      if (own == whole.members.end()) continue;
      ncclComm& comm = *own->second->parts[number];
      comm.group = &part;
      comm.rank = rank;
      part.members[rank] = &comm;
    }
  }
}

// What a member says, of whichever process.
void put(Machine& m, const PostPtr& post) {
  Nccl& nccl = nccl_of(m);
  CommGroup& group = group_of(nccl, post->group);
  const MeetingKey& key = post->meeting;
  nccl.changed.notify_all();
  if (key.kind == Meets::kEnd) {
    group.gone.insert(post->seat);
    return;
  }
  CommGroup::Meeting& meeting = group.meetings[key];
  for (const auto& [seat, other] : meeting.posts) {
    if (const auto found = disagreement(*post, *other)) {
      for (const auto& [rank, comm] : group.members) comm->error = ncclInvalidUsage;
      return break_down(m, group.name() + ": " + *found);
    }
    if (key.kind == Meets::kStart && share_a_device(*post, *other))
      m.find(fmt::format("{}: two of its ranks are on device {}", group.name(), post->says[1]));
  }
  meeting.posts.emplace(post->seat, post);
  if (!are_all_there(group, key)) return;
  if (key.kind == Meets::kStart) return form(nccl, group, meeting.posts);
  if (key.kind == Meets::kSplit)
    return form_parts(nccl, group, static_cast<std::size_t>(key.number), meeting.posts);
  const bool is_transfer = key.kind == Meets::kTransfer;  // which says no kind
  const auto count = static_cast<std::size_t>(post->says[is_transfer ? 0 : 1]);
  const auto type = static_cast<ncclDataType_t>(post->says[is_transfer ? 1 : 2]);
  m.count_collective(count * size_of_type(type));
}

// Of those that have come, and their members of this process that are through.
Posts take(CommGroup& group, const MeetingKey& key) {
  CommGroup::Meeting& meeting = group.meetings.at(key);
  Posts all = meeting.posts;
  const auto own = std::count_if(all.begin(), all.end(), [](const auto& post) {
    return post.second->process == Links::own_process();
  });
  if (++meeting.left == own) group.meetings.erase(key);
  return all;
}

}  // namespace

Nccl& nccl_of(Machine& m) {
  if (m.nccl == nullptr) m.nccl = std::make_shared<Nccl>();
  return *static_cast<Nccl*>(m.nccl.get());
}

void open_links(Machine& m) {
  Nccl& nccl = nccl_of(m);
  if (nccl.links != nullptr) return;
  nccl.links = std::make_unique<Links>(
      [&m](const PostPtr& post) {
        const Lock lock(m.mutex);
        m.last_progress = std::chrono::steady_clock::now();
        put(m, post);
      },
      [&m](int process) {
        const Lock lock(m.mutex);
        nccl_of(m).lost.insert(process);
        nccl_of(m).changed.notify_all();
      });
}

void end_links(Machine& m) {
  if (m.nccl != nullptr && nccl_of(m).links != nullptr) nccl_of(m).links->end();
}

std::string new_key(Nccl& nccl) { return fmt::format("{}:{}", Links::own_process(), nccl.ids++); }

CommGroup& group_of(Nccl& nccl, const std::string& key) {
  CommGroup& group = nccl.groups[key];
  if (!group.key.empty()) return group;
  group.key = key;
  group.number = std::to_string(std::stoi(key.substr(key.find(':') + 1)) + 1);
  group.ranks = "of all ranks";
  return group;
}

bool is_cut_off(const Nccl& nccl, const CommGroup& group) {
  if (!group.is_formed()) return nccl.lost.contains(maker_of(group));
  return std::any_of(group.processes.begin(), group.processes.end(), [&](const auto& member) {
    return nccl.lost.contains(member.second) && !group.gone.contains(member.first);
  });
}

bool are_all_there(const CommGroup& group, const MeetingKey& key) {
  const auto found = group.meetings.find(key);
  if (found == group.meetings.end()) return false;
  const Posts& posts = found->second.posts;
  if (key.kind == Meets::kTransfer) return posts.size() == 2;
  if (key.kind != Meets::kStart) return group.is_formed() && posts.size() == group.size;
  return posts.size() == static_cast<std::size_t>(posts.begin()->second->says[0]);
}

void publish(Machine& m, Post post) {
  Nccl& nccl = nccl_of(m);
  post.process = Links::own_process();
  const auto shared = std::make_shared<const Post>(std::move(post));
  const CommGroup& group = group_of(nccl, shared->group);
  std::set<int> others = other_processes(group);
  if (!group.is_formed() && maker_of(group) != Links::own_process()) others = {maker_of(group)};
  for (const int process : others) nccl.links->send(process, shared);
  put(m, shared);
}

std::vector<Posts> meet(Machine& m, Lock& lock, Agent& agent, ncclComm& comm, std::vector<Post> own,
                        const std::string& what) {
  CommGroup& group = *comm.group;
  for (const Post& post : own) comm.at.push_back(post.meeting);
  const std::vector<MeetingKey> keys = comm.at;
  for (Post& post : own) {
    post.group = group.key;
    post.clock = agent.clock;
    publish(m, std::move(post));
  }
  const auto have_come = [&] {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const MeetingKey& key) { return are_all_there(group, key); });
  };
  m.wait(
      lock, nccl_of(m).changed, [&] { return have_come() || comm.is_aborted; },
      fmt::format("{}: {} of {} waits for its partners", agent.name, what, group.name()),
      !other_processes(group).empty());
  comm.at.clear();
  if (!have_come()) return {};
  std::vector<Posts> all;
  for (const MeetingKey& key : keys) all.push_back(take(group, key));
  for (const Posts& posts : all)
    for (const auto& [seat, post] : posts) join(agent.clock, post->clock);
  return all;
}

bool waits_for(const ncclComm& comm, int rank) {
  const auto lacks = [&](const MeetingKey& key) {
    const auto& posts = comm.group->meetings.at(key).posts;
    if (key.kind == Meets::kCollective) return !posts.contains(rank);
    return (key.from == rank && !posts.contains(0)) || (key.to == rank && !posts.contains(1));
  };
  return std::any_of(comm.at.begin(), comm.at.end(), lacks);
}

void break_down(Machine& m, const std::string& finding) {
  m.find(finding);
  m.is_broken = true;
  for (Device& device : m.devices) m.fail(device, cudaErrorLaunchFailure);
  nccl_of(m).changed.notify_all();
}

}  // namespace zplan::stand_in
