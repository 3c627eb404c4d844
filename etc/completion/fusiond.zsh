#compdef fusiond
<<<<<<< HEAD
# zsh completion of fusiond, made by `fusiond completion zsh`
_fusiond() {
  local place="" word last=${words[CURRENT-1]}
  local -a found
  for word in ${words[2,CURRENT-1]}; do
    case "$place $word" in
      " run" | " dev" | " reload" | " history" | " rollback" | " group" | " group list" | " group restart" | " group logs" | " drain" | " init" | " validate" | " explain" | " schema" | " import" | " plan" | " status" | " info" | " health" | " top" | " enqueue" | " job" | " job list" | " job show" | " job cancel" | " job delete" | " requeue" | " discard" | " unique" | " unique list" | " unique release" | " queue" | " queue list" | " queue purge" | " suspend" | " resume" | " broken" | " broken list" | " broken show" | " broken requeue" | " broken drop" | " flow" | " flow run" | " flow list" | " flow show" | " flow pause" | " flow resume" | " flow cancel" | " flow retry" | " cron" | " cron list" | " cron explain" | " cron run" | " cron suspend" | " cron resume" | " events" | " fsck" | " call" | " completion") place="$place $word" ;;
    esac
  done
  case "$place,$last" in
    " run,--only") _files; return ;;
    " run,-c") _files; return ;;
    " run,--config") _files; return ;;
    " run,--instance") _files; return ;;
    " dev,-c") _files; return ;;
    " dev,--config") _files; return ;;
    " dev,--instance") _files; return ;;
    " reload,--code") compadd -- $($words[1] completion groups 2>/dev/null); return ;;
    " reload,--timeout") _files; return ;;
    " reload,-c") _files; return ;;
    " reload,--config") _files; return ;;
    " reload,--instance") _files; return ;;
    " history,-c") _files; return ;;
    " history,--config") _files; return ;;
    " history,--instance") _files; return ;;
    " rollback,--timeout") _files; return ;;
    " rollback,-c") _files; return ;;
    " rollback,--config") _files; return ;;
    " rollback,--instance") _files; return ;;
    " group list,-c") _files; return ;;
    " group list,--config") _files; return ;;
    " group list,--instance") _files; return ;;
    " group restart,--timeout") _files; return ;;
    " group restart,-c") _files; return ;;
    " group restart,--config") _files; return ;;
    " group restart,--instance") _files; return ;;
    " group logs,-n") _files; return ;;
    " group logs,--lines") _files; return ;;
    " group logs,-c") _files; return ;;
    " group logs,--config") _files; return ;;
    " group logs,--instance") _files; return ;;
    " drain,--wait") _files; return ;;
    " drain,-c") _files; return ;;
    " drain,--config") _files; return ;;
    " drain,--instance") _files; return ;;
    " validate,--format") compadd -- text json sarif github; return ;;
    " validate,--import-timeout") _files; return ;;
    " validate,--unit") _files; return ;;
    " explain,-c") _files; return ;;
    " explain,--config") _files; return ;;
    " explain,--instance") _files; return ;;
    " import,--timezone") _files; return ;;
    " import,--environment") _files; return ;;
    " plan,--against") _files; return ;;
    " plan,--url") _files; return ;;
    " plan,--namespace") _files; return ;;
    " plan,-c") _files; return ;;
    " plan,--config") _files; return ;;
    " plan,--instance") _files; return ;;
    " status,--url") _files; return ;;
    " status,--namespace") _files; return ;;
    " status,-c") _files; return ;;
    " status,--config") _files; return ;;
    " status,--instance") _files; return ;;
    " info,--url") _files; return ;;
    " info,--namespace") _files; return ;;
    " info,-c") _files; return ;;
    " info,--config") _files; return ;;
    " info,--instance") _files; return ;;
    " health,-c") _files; return ;;
    " health,--config") _files; return ;;
    " health,--instance") _files; return ;;
    " top,--every") _files; return ;;
    " top,--url") _files; return ;;
    " top,--namespace") _files; return ;;
    " top,-c") _files; return ;;
    " top,--config") _files; return ;;
    " top,--instance") _files; return ;;
    " enqueue,--args") _files; return ;;
    " enqueue,--kwargs") _files; return ;;
    " enqueue,--in") _files; return ;;
    " enqueue,--at") _files; return ;;
    " enqueue,--priority") _files; return ;;
    " enqueue,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " enqueue,--key") _files; return ;;
    " enqueue,--id") _files; return ;;
    " enqueue,--expires") _files; return ;;
    " enqueue,--timeout") _files; return ;;
    " enqueue,--retry") _files; return ;;
    " enqueue,--result-ttl") _files; return ;;
    " enqueue,--failure-ttl") _files; return ;;
    " enqueue,--description") _files; return ;;
    " enqueue,--traceparent") _files; return ;;
    " enqueue,--meta") _files; return ;;
    " enqueue,--log-tag") _files; return ;;
    " enqueue,--on-success") _files; return ;;
    " enqueue,--on-failure") _files; return ;;
    " enqueue,--after") _files; return ;;
    " enqueue,--join") _files; return ;;
    " enqueue,--on-parent-failure") compadd -- fail run; return ;;
    " enqueue,--wait") _files; return ;;
    " enqueue,--url") _files; return ;;
    " enqueue,--namespace") _files; return ;;
    " enqueue,-c") _files; return ;;
    " enqueue,--config") _files; return ;;
    " enqueue,--instance") _files; return ;;
    " job list,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " job list,--status") compadd -- started queued held scheduled deferred failed canceled finished; return ;;
    " job list,--limit") _files; return ;;
    " job list,--task") compadd -- $($words[1] completion tasks 2>/dev/null); return ;;
    " job list,--tag") _files; return ;;
    " job list,--since") _files; return ;;
    " job list,--text") _files; return ;;
    " job list,--depth") _files; return ;;
    " job list,--url") _files; return ;;
    " job list,--namespace") _files; return ;;
    " job list,-c") _files; return ;;
    " job list,--config") _files; return ;;
    " job list,--instance") _files; return ;;
    " job show,--url") _files; return ;;
    " job show,--namespace") _files; return ;;
    " job show,-c") _files; return ;;
    " job show,--config") _files; return ;;
    " job show,--instance") _files; return ;;
    " job cancel,--url") _files; return ;;
    " job cancel,--namespace") _files; return ;;
    " job cancel,-c") _files; return ;;
    " job cancel,--config") _files; return ;;
    " job cancel,--instance") _files; return ;;
    " job delete,--status") compadd -- finished failed canceled; return ;;
    " job delete,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " job delete,--url") _files; return ;;
    " job delete,--namespace") _files; return ;;
    " job delete,-c") _files; return ;;
    " job delete,--config") _files; return ;;
    " job delete,--instance") _files; return ;;
    " requeue,--from-queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " requeue,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " requeue,--url") _files; return ;;
    " requeue,--namespace") _files; return ;;
    " requeue,-c") _files; return ;;
    " requeue,--config") _files; return ;;
    " requeue,--instance") _files; return ;;
    " discard,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " discard,--url") _files; return ;;
    " discard,--namespace") _files; return ;;
    " discard,-c") _files; return ;;
    " discard,--config") _files; return ;;
    " discard,--instance") _files; return ;;
    " unique list,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " unique list,--url") _files; return ;;
    " unique list,--namespace") _files; return ;;
    " unique list,-c") _files; return ;;
    " unique list,--config") _files; return ;;
    " unique list,--instance") _files; return ;;
    " unique release,--url") _files; return ;;
    " unique release,--namespace") _files; return ;;
    " unique release,-c") _files; return ;;
    " unique release,--config") _files; return ;;
    " unique release,--instance") _files; return ;;
    " queue list,--url") _files; return ;;
    " queue list,--namespace") _files; return ;;
    " queue list,-c") _files; return ;;
    " queue list,--config") _files; return ;;
    " queue list,--instance") _files; return ;;
    " queue purge,--url") _files; return ;;
    " queue purge,--namespace") _files; return ;;
    " queue purge,-c") _files; return ;;
    " queue purge,--config") _files; return ;;
    " queue purge,--instance") _files; return ;;
    " suspend,--url") _files; return ;;
    " suspend,--namespace") _files; return ;;
    " suspend,-c") _files; return ;;
    " suspend,--config") _files; return ;;
    " suspend,--instance") _files; return ;;
    " resume,--url") _files; return ;;
    " resume,--namespace") _files; return ;;
    " resume,-c") _files; return ;;
    " resume,--config") _files; return ;;
    " resume,--instance") _files; return ;;
    " broken list,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " broken list,--limit") _files; return ;;
    " broken list,--url") _files; return ;;
    " broken list,--namespace") _files; return ;;
    " broken list,-c") _files; return ;;
    " broken list,--config") _files; return ;;
    " broken list,--instance") _files; return ;;
    " broken show,--url") _files; return ;;
    " broken show,--namespace") _files; return ;;
    " broken show,-c") _files; return ;;
    " broken show,--config") _files; return ;;
    " broken show,--instance") _files; return ;;
    " broken requeue,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " broken requeue,--url") _files; return ;;
    " broken requeue,--namespace") _files; return ;;
    " broken requeue,-c") _files; return ;;
    " broken requeue,--config") _files; return ;;
    " broken requeue,--instance") _files; return ;;
    " broken drop,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " broken drop,--url") _files; return ;;
    " broken drop,--namespace") _files; return ;;
    " broken drop,-c") _files; return ;;
    " broken drop,--config") _files; return ;;
    " broken drop,--instance") _files; return ;;
    " flow run,--wait") _files; return ;;
    " flow run,--url") _files; return ;;
    " flow run,--namespace") _files; return ;;
    " flow run,-c") _files; return ;;
    " flow run,--config") _files; return ;;
    " flow run,--instance") _files; return ;;
    " flow list,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " flow list,--limit") _files; return ;;
    " flow list,--url") _files; return ;;
    " flow list,--namespace") _files; return ;;
    " flow list,-c") _files; return ;;
    " flow list,--config") _files; return ;;
    " flow list,--instance") _files; return ;;
    " flow show,--url") _files; return ;;
    " flow show,--namespace") _files; return ;;
    " flow show,-c") _files; return ;;
    " flow show,--config") _files; return ;;
    " flow show,--instance") _files; return ;;
    " flow pause,--url") _files; return ;;
    " flow pause,--namespace") _files; return ;;
    " flow pause,-c") _files; return ;;
    " flow pause,--config") _files; return ;;
    " flow pause,--instance") _files; return ;;
    " flow resume,--url") _files; return ;;
    " flow resume,--namespace") _files; return ;;
    " flow resume,-c") _files; return ;;
    " flow resume,--config") _files; return ;;
    " flow resume,--instance") _files; return ;;
    " flow cancel,--url") _files; return ;;
    " flow cancel,--namespace") _files; return ;;
    " flow cancel,-c") _files; return ;;
    " flow cancel,--config") _files; return ;;
    " flow cancel,--instance") _files; return ;;
    " flow retry,--url") _files; return ;;
    " flow retry,--namespace") _files; return ;;
    " flow retry,-c") _files; return ;;
    " flow retry,--config") _files; return ;;
    " flow retry,--instance") _files; return ;;
    " cron list,--url") _files; return ;;
    " cron list,--namespace") _files; return ;;
    " cron list,-c") _files; return ;;
    " cron list,--config") _files; return ;;
    " cron list,--instance") _files; return ;;
    " cron explain,--next") _files; return ;;
    " cron explain,-c") _files; return ;;
    " cron explain,--config") _files; return ;;
    " cron explain,--instance") _files; return ;;
    " cron run,--url") _files; return ;;
    " cron run,--namespace") _files; return ;;
    " cron run,-c") _files; return ;;
    " cron run,--config") _files; return ;;
    " cron run,--instance") _files; return ;;
    " cron suspend,--url") _files; return ;;
    " cron suspend,--namespace") _files; return ;;
    " cron suspend,-c") _files; return ;;
    " cron suspend,--config") _files; return ;;
    " cron suspend,--instance") _files; return ;;
    " cron resume,--url") _files; return ;;
    " cron resume,--namespace") _files; return ;;
    " cron resume,-c") _files; return ;;
    " cron resume,--config") _files; return ;;
    " cron resume,--instance") _files; return ;;
    " events,--job") compadd -- $($words[1] completion jobs 2>/dev/null); return ;;
    " events,--task") compadd -- $($words[1] completion tasks 2>/dev/null); return ;;
    " events,--queue") compadd -- $($words[1] completion queues 2>/dev/null); return ;;
    " events,--only") _files; return ;;
    " events,-n") _files; return ;;
    " events,--last") _files; return ;;
    " events,--url") _files; return ;;
    " events,--namespace") _files; return ;;
    " events,-c") _files; return ;;
    " events,--config") _files; return ;;
    " events,--instance") _files; return ;;
    " fsck,--url") _files; return ;;
    " fsck,--namespace") _files; return ;;
    " fsck,-c") _files; return ;;
    " fsck,--config") _files; return ;;
    " fsck,--instance") _files; return ;;
    " call,-c") _files; return ;;
    " call,--config") _files; return ;;
    " call,--instance") _files; return ;;
    " call,--group") _files; return ;;
    " call,--args") _files; return ;;
    " call,--kwargs") _files; return ;;
    " completion,--url") _files; return ;;
    " completion,--namespace") _files; return ;;
    " completion,-c") _files; return ;;
    " completion,--config") _files; return ;;
    " completion,--instance") _files; return ;;
  esac
  case "$place" in
    "") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--version:print the version and exit')
      else found=('run:Run the daemon in the foreground.' 'dev:Run the daemon for task development  it loads code as you save it.' 'reload:[daemon] Apply the changed file and print what was done; status 1 if it was refused.' 'history:[daemon] List the accepted generations  when, who asked, what changed.' 'rollback:[daemon] Run an earlier generation; the file is not changed.' 'group:[daemon] The worker groups of this host.' 'drain:[daemon] Have the worker groups of this host claim no more jobs; running jobs go on.' 'init:Write a first fusion.yaml and a file with its tasks, or what systemd, Docker or Kubernetes needs.' 'validate:Check a file  print every problem with its place and remedy.' 'explain:Show each effective value of a task, queue, group, flow or cron entry, and which line sets it.' 'schema:Print the JSON Schema of the file.' 'import:Print a fusion.yaml that says what files of another job runner say.' 'plan:[daemon, broker] Show what a reload would do; with --exit-code, status 4 if it would change something.' 'status:[daemon, broker] Show the daemon, its programs, the queues and the workers.' 'info:' 'health:[daemon] A probe  status 0 if the daemon answers, or is ready.' 'top:[broker] Show queues, workers, jobs and failures live on a full screen, and act on them by keys.' 'enqueue:[broker] Enqueue one job, or one for each line of JSON on standard input.' 'job:[broker] List, show, cancel and delete jobs.' 'requeue:[broker] Put failed and canceled jobs back into their queue, or move waiting jobs to another.' 'discard:[broker] Delete failed and canceled jobs before their time is over.' 'unique:[broker] List and lift the locks of unique jobs.' 'queue:[broker] List and purge queues.' 'suspend:[broker] Let queues accept jobs but start none, until they are resumed.' 'resume:[broker] Undo suspend.' 'broken:[broker] Look at bodies that could not be read.' 'flow:[broker] Runs of flows  run, list, show, pause, resume, cancel, retry.' 'cron:[broker] Schedules  list, explain, run, suspend, resume.' 'events:[broker] Show the newest events of jobs, queues and daemons, in the order of their times.' 'fsck:[broker] Check that the data of all jobs is consistent; --repair repairs it.' 'call:Run one task here, in the foreground, without Redis and retries; breakpoint() works.' 'completion:Print what a shell needs to complete commands and options.'); fi ;;
    " run") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--only:only this group, scheduler or web; may be repeated' '--last-good:start with the configuration that was accepted last, not the file' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml')
      else found=(); fi ;;
    " dev") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml')
      else found=(); fi ;;
    " reload") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--code:also replace this group, or all, to load new code; may be repeated' '--timeout:default  120' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " history") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " rollback") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--timeout:default  120' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " group") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('list:[daemon] List the worker groups of this host, with the process of each.' 'restart:[daemon] Replace worker groups by new processes, as reload --code does.' 'logs:[daemon] Print the last lines that a worker group has logged, with what its jobs print.'); fi ;;
    " group list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " group restart") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--timeout:default  120' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion groups 2>/dev/null)//:/\\:}"}); fi ;;
    " group logs") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-f:go on with what is logged from now on, until Ctrl-C' '--follow:go on with what is logged from now on, until Ctrl-C' '-n:how many lines, the newest; default  20' '--lines:how many lines, the newest; default  20' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:of the daemon of fusiond dev, if another one runs this file')
      else found=(${(f)"${$($words[1] completion groups 2>/dev/null)//:/\\:}"}); fi ;;
    " drain") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--wait:wait until no job runs; status 124 if that takes longer than SECONDS' '--undo:have the groups claim again' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " init") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--systemd:the units and /etc/fusion.yaml, below DIRECTORY; / puts them in place' '--docker:an image, and a compose file with Redis' '--kubernetes:an image, and manifests for Kustomize' '--yes:do not ask whether to do it')
      else found=(); fi ;;
    " validate") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--format:default  text, or github if GITHUB_ACTIONS=true' '--json:as --format json' '--strict:warnings fail, too' '--imports:also load each task as its group would' '--import-timeout:default  30s' '--elsewhere:for another machine  do not check users, directories and memory' '--unit:the systemd unit that will run it; default  this machine’s, if any')
      else found=(); fi ;;
    " explain") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--json:print JSON, for programs')
      else found=('task' 'queue' 'group' 'flow' 'cron'); fi ;;
    " schema") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=(); fi ;;
    " import") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--timezone:of schedules that name none, such as Europe/Berlin; default  UTC' '--environment:whose section of a Rails file; default  production' '--system:crontab  each line names a user, as those of /etc/crontab do')
      else found=('crontab' 'sidekiq' 'solid-queue' 'celery' 'rq' 'kubernetes'); fi ;;
    " plan") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--against:compare with another file; needs neither daemon nor broker' '--imports:also load each task of the file as you, as validate --imports does' '--exit-code:status 0  nothing changes, 4  something does' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " status") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-W:also show each worker of each host, and what it does' '--workers:also show each worker of each host, and what it does' '--watch:show it again each second, until Ctrl-C' '--metrics:print numbers in the text format of Prometheus' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " info") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-W:also show each worker of each host, and what it does' '--workers:also show each worker of each host, and what it does' '--watch:show it again each second, until Ctrl-C' '--metrics:print numbers in the text format of Prometheus' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " health") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--live:whether the daemon answers, even without Redis' '--ready:whether every group serves and Redis answers, now' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " top") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--every:seconds between two looks; default  1' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " enqueue") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--args:arguments as a JSON array' '--kwargs:keywords as a JSON object' '--in:run after this time, such as 5m or 1h30m' '--at:run at this time, in ISO 8601; without an offset  local' '--priority:a name from the file, or 0 to 255; higher runs first' '--queue:another queue than the task’s' '--key:a second call with this key for this task returns the first job' '--id:the job’s id  1 to 128 letters, digits and _ .-' '--expires:no attempt begins later than this; it fails with EXPIRED' '--timeout:the timeout of one attempt, instead of the task’s' '--retry:a retry policy of the file, instead of the task’s' '--result-ttl:how long it is kept once it has finished' '--failure-ttl:how long it is kept once it has failed' '--description:a text for people, which job show shows' '--traceparent:the span in which it is enqueued, as W3C has it; default  $TRACEPARENT' '--meta:what the function receives with pass_job' '--log-tag:a word that is added to the job’s log lines' '--on-success:the task or URL that is called when the job has finished; empty  none' '--on-failure:the task or URL that is called when the job has failed; empty  none' '--after:wait for this job; can be repeated' '--join:how many of them must end well  all, any, or a number' '--on-parent-failure:if not enough of them can end well any more' '--wait:wait until the job has ended, and print its result' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion tasks 2>/dev/null)//:/\\:}"}); fi ;;
    " job") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('list:[broker] List jobs, newest first, of all queues unless some are named.' 'show:[broker] Show everything about a job.' 'cancel:[broker] Remove waiting jobs from their queue, kill running ones.' 'delete:[broker] Delete jobs that have ended, with their results and errors.'); fi ;;
    " job list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--queue:may be repeated; default  all' '--status:may be repeated; default  all' '--limit:how many jobs, newest first; default  20' '--task:may be repeated; default  all' '--tag:the log tag; may be repeated' '--since:that ended, began or were enqueued since  2h, or a time in ISO 8601' '--text:that have it in arguments, error or id' '--depth:look at so many jobs, newest first; default  10,000' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " job show") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion jobs 2>/dev/null)//:/\\:}"}); fi ;;
    " job cancel") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion jobs 2>/dev/null)//:/\\:}"}); fi ;;
    " job delete") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--status:all jobs that ended so; may be repeated' '--queue:with --status  only of this queue' '--yes:do not ask whether to do it' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion jobs 2>/dev/null)//:/\\:}"}); fi ;;
    " requeue") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--all:all failed jobs' '--from-queue:move all waiting jobs of this queue, for example if nothing serves it' '--queue:with --all  only of this queue; with --from-queue  the queue to move them to' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion jobs 2>/dev/null)//:/\\:}"}); fi ;;
    " discard") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--all:all failed jobs' '--queue:with --all  only of this queue' '--yes:do not ask whether to do it' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion jobs 2>/dev/null)//:/\\:}"}); fi ;;
    " unique") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('list:[broker] List the locks of unique jobs, and the job that holds each.' 'release:[broker] Free the locks that jobs hold, so that new jobs can be enqueued beside them.'); fi ;;
    " unique list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--queue:may be repeated; default  all' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " unique release") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion jobs 2>/dev/null)//:/\\:}"}); fi ;;
    " queue") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('list:[broker] List each queue with its jobs by status.' 'purge:[broker] Cancel all jobs of queues that wait.'); fi ;;
    " queue list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " queue purge") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--yes:do not ask whether to do it' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion queues 2>/dev/null)//:/\\:}"}); fi ;;
    " suspend") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--all:every queue, and those that are added later' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion queues 2>/dev/null)//:/\\:}"}); fi ;;
    " resume") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--all:every queue, and those that are added later' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(${(f)"${$($words[1] completion queues 2>/dev/null)//:/\\:}"}); fi ;;
    " broken") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('list:[broker] List bodies that could not be read, newest first.' 'show:[broker] Show bodies that could not be read, and why.' 'requeue:[broker] Put bodies back into the inbox of their queue, for example once the file has their task.' 'drop:[broker] Delete bodies that could not be read.'); fi ;;
    " broken list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--queue:may be repeated; default  all' '--limit:how many bodies, newest first; default  20' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " broken show") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " broken requeue") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--all:all bodies' '--queue:with --all  only of this queue; may be repeated' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " broken drop") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--all:all bodies' '--queue:with --all  only of this queue; may be repeated' '--yes:do not ask whether to do it' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('run:[broker] Start a run of a flow.' 'list:[broker] List the runs of flows  those that go on, then those that ended last.' 'show:[broker] Show a run  its graph, with the state of each step.' 'pause:[broker] Have no further step of these runs begin; what runs goes on.' 'resume:[broker] Undo pause.' 'cancel:[broker] Cancel the jobs of these runs that wait or run; nothing more begins.' 'retry:[broker] Run the steps again that failed or were canceled, and those that were skipped for it.'); fi ;;
    " flow run") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--wait:wait for its end, and print its result' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--queue:may be repeated; default  all' '--limit:default  50' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow show") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow pause") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow resume") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow cancel") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " flow retry") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " cron") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit')
      else found=('list:[broker] List the file’s entries with their last and next ticks.' 'explain:Show the next ticks of an entry, and what daylight saving does to them.' 'run:[broker] Enqueue an entry’s task, or start its flow, now, outside its schedule.' 'suspend:[broker] Skip an entry’s ticks until it is resumed, over restarts too.' 'resume:[broker] Undo suspend; skipped ticks are not run later.'); fi ;;
    " cron list") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " cron explain") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--next:ticks; default  10' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--json:print JSON, for programs')
      else found=(); fi ;;
    " cron run") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " cron suspend") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " cron resume") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " events") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--follow:go on with those that come, until Ctrl-C' '-f:go on with those that come, until Ctrl-C' '--job:of this job  queue/id, or the id alone' '--task:of jobs of this task' '--queue:may be repeated; default  all, and the daemons' '--only:such as failed,reload.*; may be repeated' '-n:so many at first; default  50' '--last:so many at first; default  50' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " fsck") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--repair:repair what is found, and print what was done' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=(); fi ;;
    " call") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--group:use this group’s settings; default  one that serves the task' '--args:arguments as a JSON array' '--kwargs:keywords as a JSON object')
      else found=(${(f)"${$($words[1] completion tasks 2>/dev/null)//:/\\:}"}); fi ;;
    " completion") if [[ $PREFIX == -* ]]; then found=('-h:show this help message and exit' '--help:show this help message and exit' '--url:such as redis //localhost or unix ///run/redis.sock' '--namespace:the prefix of each key; default  the file’s, or fusion' '-c:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--config:default  $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml' '--instance:the same as -c /etc/fusion-NAME.yaml' '--dev:use the daemon of fusiond dev, if another one runs this file too' '--json:print JSON, for programs')
      else found=('bash' 'zsh' 'fish' 'queues' 'tasks' 'groups' 'jobs'); fi ;;
  esac
  if (( ${#found} )); then _describe fusiond found; else _files; fi
}
if [[ ${funcstack[1]} == _fusiond ]]; then _fusiond "$@"; else compdef _fusiond fusiond; fi
=======
eval "$(fusiond completion zsh)"
_python_argcomplete "$@"
>>>>>>> ba61907fdbfb240955cb871d1eeef1fe47ff74ca
