import { RedisClient } from 'bun';
import { failureCode, failureMessage } from '../../core/errors.ts';

/** Time limit for one command. When it expires, the request continues without Redis. */
const commandMs = 100;

/** Pause between attempts to reconnect, and its maximum for a server that keeps failing. */
const retryMs = 500;
const retryMsMax = 5_000;

/** Consecutive failures after which Redis counts as unreachable. One slow command isn't enough. */
const failuresToDisconnect = 3;

/** Errors with which the server rejects all clients. A single one is enough to disconnect. */
const serverRejection = /\b(?:OOM|READONLY|MISCONF|NOAUTH|LOADING|MASTERDOWN)\b/;

/** A server that fails again sooner than this is retried less often. */
const stableMs = 5_000;

interface RedisWatcher {
  /**
   * Called once per outage, no matter how many requests it affects. Requests continue without
   * Redis.
   */
  onUnreachable(reason: string): void;
  onReconnected(): void;
}

/**
 * A client for Redis or Valkey that never fails a request. Commands never reject: they resolve to
 * undefined if the server doesn't respond in time, or at once while the server is known to be
 * unreachable. Reconnects in the background.
 */
export class Redis {
  readonly #url: string;
  readonly #watcher: RedisWatcher;
  /** Prefix of every key, because other deployments may use the same server. */
  readonly #prefix: string;
  readonly #scripts: readonly Script[];
  readonly #deadlines: Deadlines;
  /** Set while Redis is reachable. */
  #client: RedisClient | undefined;
  #failures = 0;
  #connectedAt = Number.NEGATIVE_INFINITY;
  #retryMs = retryMs;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  private constructor(
    url: string,
    watcher: RedisWatcher,
    scripts: readonly Script[],
    deploymentId: string,
    timeoutMs: number,
  ) {
    this.#deadlines = new Deadlines(timeoutMs);
    this.#prefix = `tollgate:${deploymentId}:`;
    this.#url = url;
    this.#watcher = watcher;
    this.#scripts = scripts;
  }

  /** Resolves after the first attempt, successful or not, because startup never depends on it. */
  static async open(
    url: string,
    watcher: RedisWatcher,
    scripts: readonly Script[],
    deploymentId: string,
    timeoutMs = commandMs,
  ): Promise<Redis> {
    const redis = new Redis(url, watcher, scripts, deploymentId, timeoutMs);
    const problem = await redis.#connect();
    if (problem !== undefined) redis.#disconnect(problem);
    return redis;
  }

  get isUp(): boolean {
    return this.#client !== undefined;
  }

  /** Runs a script by its hash, or by its text if the server doesn't have it yet. */
  run(script: Script, keys: readonly string[], args: readonly (string | number)[]) {
    const evalArgs = [script.hash, String(keys.length)];
    for (const key of keys) evalArgs.push(this.#prefix + key);
    for (const arg of args) evalArgs.push(String(arg));
    return this.#send<unknown>((client) => evaluate(client, script, evalArgs));
  }

  /** Resolves to null if there is no such key. */
  get(key: string): Promise<Uint8Array | null | undefined> {
    return this.#send((client) => client.getBuffer(this.#prefix + key));
  }

  set(key: string, bytes: Uint8Array, ttlMs: number): Promise<'OK' | undefined> {
    const name = this.#prefix + key;
    return this.#send((client) => client.set(name, bytes, 'PX', Math.max(1, Math.round(ttlMs))));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#client?.close();
    this.#client = undefined;
  }

  #send<T>(command: (client: RedisClient) => Promise<T>): Promise<T | undefined> {
    const client = this.#client;
    if (!client) return noResponse;
    return this.#deadlines.within(command(client)).then(
      (response) => {
        if (client === this.#client) this.#failures = 0;
        return response;
      },
      (error) => {
        // Failures on a broken connection must not count against the next one.
        if (client === this.#client) this.#countFailure(messageOf(error));
        return undefined;
      },
    );
  }

  /**
   * Counts a failure. A single rejection by the server disconnects, because a full server still
   * serves reads, and these reset the count.
   */
  #countFailure(failure: string): void {
    this.#failures += 1;
    if (this.#failures >= failuresToDisconnect || serverRejection.test(failure))
      this.#disconnect(failure);
  }

  #disconnect(reason: string): void {
    const client = this.#client;
    this.#client = undefined;
    client?.close();
    if (this.#isClosed) return;
    const wasStable = performance.now() - this.#connectedAt >= stableMs;
    this.#retryMs = wasStable ? retryMs : Math.min(this.#retryMs * 2, retryMsMax);
    this.#watcher.onUnreachable(reason);
    this.#retryLater();
  }

  #retryLater(): void {
    this.#timer = setTimeout(async () => {
      const problem = await this.#connect();
      if (this.#isClosed) this.close();
      else if (problem === undefined) this.#watcher.onReconnected();
      else this.#retryLater();
    }, this.#retryMs);
    this.#timer.unref();
  }

  /** Connects and tests the server, which must respond within the time limit for a command. */
  async #connect(): Promise<string | undefined> {
    const client = new RedisClient(this.#url, {
      connectionTimeout: Math.max(retryMs, this.#deadlines.ms),
      // Queued commands would delay their requests, and this class reconnects by itself.
      autoReconnect: false,
      enableOfflineQueue: false,
    });
    try {
      await client.connect();
      await this.#deadlines.within(client.send('PING', []));
      // Load all scripts now. Otherwise, the first run of a script takes two round trips, and later
      // commands overtake it.
      const loads = this.#scripts.map(({ text }) => client.send('SCRIPT', ['LOAD', text]));
      await this.#deadlines.within(Promise.allSettled(loads));
      const tests = quarters.map((tag) => runSelfTest(client, `${this.#prefix}trial:{${tag}}`));
      await this.#deadlines.within(Promise.all(tests));
    } catch (error) {
      client.close();
      return messageOf(error);
    }
    client.onclose = () => {
      if (this.#client === client) this.#disconnect('The connection was closed.');
    };
    this.#client = client;
    this.#failures = 0;
    this.#connectedAt = performance.now();
    return undefined;
  }
}

/** A Lua script, which runs atomically and in one round trip. */
export class Script {
  readonly text: string;
  readonly hash: string;

  constructor(text: string) {
    this.text = text;
    this.hash = new Bun.CryptoHasher('sha1').update(text).digest('hex');
  }
}

function evaluate(
  client: RedisClient,
  script: Script,
  evalArgs: readonly string[],
): Promise<unknown> {
  return client.send('EVALSHA', [...evalArgs]).catch((error: unknown) => {
    if (!messageOf(error).startsWith('NOSCRIPT')) throw error;
    return client.send('EVAL', [script.text, ...evalArgs.slice(1)]);
  });
}

/**
 * Runs every command that the limits and the cache use. Without this test, limits would silently
 * not apply if the Redis user lacks the permission for one of the commands.
 */
const selfTest = new Script(`
redis.call('TIME')
redis.call('HSET', KEYS[1], 'test', 1)
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('HMGET', KEYS[1], 'test')
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 1, 'test')
redis.call('ZCARD', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', 0)
redis.call('ZREM', KEYS[1], 'test')
redis.call('SET', KEYS[1], 1, 'PX', 1000)
redis.call('GET', KEYS[1])
return redis.call('DEL', KEYS[1])
`);

/**
 * First deletes the key that an interrupted self-test may have left, because the key's type would
 * make this test fail. The script itself doesn't delete it, because a full server accepts any
 * script that deletes something first.
 */
async function runSelfTest(client: RedisClient, key: string): Promise<void> {
  await client.send('DEL', [key]);
  await evaluate(client, selfTest, [selfTest.hash, '1', key]);
}

/** Hash tags from all quarters of a cluster's slots, so that no single node has all of them. */
const quarters = ['3', '2', '1', '0'];

const noResponse = Promise.resolve(undefined);

/** The client has the same error for a wrong password, failed TLS, and a closed port. */
const connectionClosedMessage =
  'The connection was closed. Check the address, the password, and TLS (rediss://).';

/** The server's own message names only the slot of one key. */
const clusterNodeMessage =
  'MOVED: this is one node of a cluster, which has only some of the keys. Tollgate needs a ' +
  'server that has all of them.';

function messageOf(error: unknown): string {
  if (failureCode(error) === 'ERR_REDIS_CONNECTION_CLOSED') return connectionClosedMessage;
  const message = failureMessage(error);
  if (message.startsWith('MOVED ')) return clusterNodeMessage;
  // Remove the quoted input, because a script is long.
  return message.replace(
    / script: \w+, on @user_script:\d+\.$|, with args beginning with: .*$/s,
    '',
  );
}

/** How often deadlines are checked. */
const tickMs = 20;

interface PendingCommand {
  readonly untilTick: number;
  readonly expire: () => void;
}

/**
 * Runs one ticker for the deadlines of all commands, because a timer per command would cost more
 * than the command. Deadlines count ticks, not time, so that commands don't expire while the
 * process or the machine is suspended.
 */
class Deadlines {
  readonly ms: number;
  readonly #pending = new Set<PendingCommand>();
  #ticks = 0;
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor(ms: number) {
    this.ms = ms;
  }

  /** Rejects if the response takes longer than the limit, to within a tick or two. */
  within<T>(response: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const command: PendingCommand = {
        // +2: the first tick may come at once, and the last one leaves time to read late responses.
        untilTick: this.#ticks + Math.ceil(this.ms / tickMs) + 2,
        expire: () => reject(new Error(`No response within ${this.ms} ms.`)),
      };
      this.#pending.add(command);
      this.#ticker ??= setInterval(() => this.#tick(), tickMs).unref();
      response.then(
        (value) => {
          this.#pending.delete(command);
          resolve(value);
        },
        (error) => {
          this.#pending.delete(command);
          reject(error);
        },
      );
    });
  }

  #tick(): void {
    this.#ticks += 1;
    for (const command of this.#pending) {
      // A Set keeps insertion order, so all other commands were sent later.
      if (command.untilTick > this.#ticks) break;
      this.#pending.delete(command);
      command.expire();
    }
    if (this.#pending.size > 0) return;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }
}
