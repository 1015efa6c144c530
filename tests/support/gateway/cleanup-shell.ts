/**
 * A shell that outlives its test process, even after SIGKILL. When the test process ends, the shell
 * kills the gateways that are still running and removes their folders.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface CleanupShell {
  readonly root: string;
  send(line: string): void;
}

let shell: CleanupShell | undefined;
let folders = 0;

/** Creates a folder that is removed when this process ends, so a restart can reuse it. */
export function newFolder(): string {
  shell ??= startShell();
  const folder = join(shell.root, String(++folders));
  mkdirSync(folder);
  return folder;
}

/**
 * Returns the home directory of all gateways of this process. The runtime caches transpiled sources
 * there, so with separate directories every startup would be cold.
 */
export function sharedHome(): string {
  shell ??= startShell();
  return shell.root;
}

/** Kills a process when this one ends. */
export function killAtExit(pid: number, exited: Promise<unknown>): void {
  shell ??= startShell();
  const { send } = shell;
  send(`started ${pid}`);
  // The ID of an ended process may be reused by another one, which must not be killed.
  void exited.then(() => send(`ended ${pid}`));
}

function startShell(): CleanupShell {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'tollgate-gateways-')));
  const script = `
    while read -r what pid; do
      rest=
      for one in $running; do [ "$one" = "$pid" ] || rest="$rest $one"; done
      running=$rest
      [ "$what" = started ] && running="$running $pid"
    done
    [ -z "$running" ] || kill -9 $running
    # A killed process may still be writing its last file.
    for again in 1 2 3 4 5; do rm -rf "$0" && break; sleep 0.2; done`;
  const child = spawn('sh', ['-c', script, root], {
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  child.unref();
  // An open pipe would keep the event loop alive, and the test process couldn't end.
  if ('unref' in child.stdin && typeof child.stdin.unref === 'function') child.stdin.unref();
  return { root, send: (line) => void child.stdin.write(`${line}\n`) };
}
