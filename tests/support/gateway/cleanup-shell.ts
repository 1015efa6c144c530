/**
 * One small shell per test process that outlives it, however the process ends (even by SIGKILL):
 * then it kills the gateways still running and removes their folders.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Keeper {
  readonly root: string;
  tell(line: string): void;
}

let keeper: Keeper | undefined;
let folders = 0;

/** A new folder, kept until this process ends so that a later start can use it again. */
export function newFolder(): string {
  keeper ??= startKeeper();
  const folder = join(keeper.root, String(++folders));
  mkdirSync(folder);
  return folder;
}

/**
 * The home directory of all gateways of this process. It is shared because the runtime caches
 * translated sources there: with a new home for each gateway every start would be a cold one.
 */
export function sharedHome(): string {
  keeper ??= startKeeper();
  return keeper.root;
}

export function killAtExit(pid: number, exited: Promise<unknown>): void {
  keeper ??= startKeeper();
  const { tell } = keeper;
  tell(`started ${pid}`);
  // The id of an ended process may soon belong to another one, which must not be killed.
  void exited.then(() => tell(`ended ${pid}`));
}

function startKeeper(): Keeper {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-gateways-')));
  const script = `
    while read -r what pid; do
      rest=
      for one in $running; do [ "$one" = "$pid" ] || rest="$rest $one"; done
      running=$rest
      [ "$what" = started ] && running="$running $pid"
    done
    [ -z "$running" ] || kill -9 $running
    # What was killed may still be writing its last file.
    for again in 1 2 3 4 5; do rm -rf "$0" && break; sleep 0.2; done`;
  const child = spawn('sh', ['-c', script, root], {
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  child.unref();
  // An open pipe would keep the event loop busy, and the test process could not end.
  if ('unref' in child.stdin && typeof child.stdin.unref === 'function') child.stdin.unref();
  return { root, tell: (line) => void child.stdin.write(`${line}\n`) };
}
