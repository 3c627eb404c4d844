# Sidekiq, https://github.com/sidekiq/sidekiq/wiki: as a worker's `-r` file, and as the producer that producer.py
# describes. Its classes and its bulk call, `push_bulk`.
require "sidekiq"

redis = {url: ENV.fetch("BENCH_URL")}
Sidekiq.configure_client { |config| config.redis = redis }
Sidekiq.configure_server { |config| config.redis = redis }
Sidekiq.logger.level = Logger::WARN

class Noop
  include Sidekiq::Worker
  def perform(*_args)
  end
end

class Mark
  include Sidekiq::Worker
  def perform(sent, path)
    waited = Process.clock_gettime(Process::CLOCK_MONOTONIC) - sent
    File.open(path, "a") { |file| file.syswrite("%.7f\n" % waited) }
  end
end

class Rest
  include Sidekiq::Worker
  def perform
    sleep 0.01
  end
end

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

if __FILE__ == $0
  args = ["+4915112345678", {"code" => "1234"}]
  $stdin.each_line do |line|
    what, count = line.split
    count = count.to_i
    began = now
    case what
    when "one" then count.times { Noop.perform_async(*args) }
    when "many"
      (0...count).each_slice(5000) { |slice| Sidekiq::Client.push_bulk("class" => Noop, "args" => slice.map { args }) }
    when "mark"
      count.times do
        sleep(0.02 + rand * 0.02)
        Mark.perform_async(now, ENV.fetch("BENCH_MARKS"))
      end
    when "rest" then count.times { Rest.perform_async }
    end
    $stdout.puts(now - began)
    $stdout.flush
  end
end
