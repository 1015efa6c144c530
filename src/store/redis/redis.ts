import { RedisClient } from 'bun';
import { redisCommandMs, redisRetryMs, redisRetryMsMax } from '../../core/bounds.ts';
import { failureCode, failureMessage } from '../../core/errors.ts';

/** Failures in a row after which Redis counts as away: one slow command is not an outage. */
const failuresToDisconnect = 3;

/** The server refuses everybody: once is enough to know. */
const serverRefusal = /\b(?:OOM|READONLY|MISCONF|NOAUTH|LOADING|MASTERDOWN)\b/;

/** A server that fails again sooner than this after it came back is tried less often. */
const stableMs = 5_000;

interface RedisWatcher {
  /** Once per outage, whatever the load: requests go on without Redis. */
  onAway(reason: string): void;
  onBack(): void;
}

/**
 * Redis or Valkey, without which requests go on: every answer may be `undefined`, which means that
 * nobody answered in time and the caller decides by itself. Nothing here rejects, and nothing waits
 * for a server that is known to be away; it is tried in the background until it is back.
 */
export class Redis {
  readonly #url: string;
  readonly #watcher: RedisWatcher;
  /** Stands before every name: other deployments may use the same server. */
  readonly #prefix: string;
  readonly #scripts: readonly Script[];
  readonly #deadlines: Deadlines;
  /** Set while Redis is up. */
  #client: RedisClient | undefined;
  #failures = 0;
  #backAt = Number.NEGATIVE_INFINITY;
  #retryMs = redisRetryMs;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #connectionClosedMessage = false;

  private constructor(
    url: string,
    watcher: RedisWatcher,
    scripts: readonly Script[],
    deployment: string,
    timeoutMs: number,
  ) {
    this.#deadlines = new Deadlines(timeoutMs);
    this.#prefix = `tollgate:${deployment}:`;
    this.#url = url;
    this.#watcher = watcher;
    this.#scripts = scripts;
  }

  /** Resolves after the first try, successful or not: a start never depends on it. */
  static async open(
    url: string,
    watcher: RedisWatcher,
    scripts: readonly Script[],
    deployment: string,
    timeoutMs = redisCommandMs,
  ): Promise<Redis> {
    const redis = new Redis(url, watcher, scripts, deployment, timeoutMs);
    const problem = await redis.#connect();
    if (problem !== undefined) redis.#disconnect(problem);
    return redis;
  }

  get isUp(): boolean {
    return this.#client !== undefined;
  }

  /** Runs a script by its hash; a server that does not know it yet gets the text. */
  run(script: Script, keys: readonly string[], args: readonly (string | number)[]) {
    const evalArgs = [script.hash, String(keys.length)];
    for (const key of keys) evalArgs.push(this.#prefix + key);
    for (const arg of args) evalArgs.push(String(arg));
    return this.#send<unknown>((client) => evaluate(client, script, evalArgs));
  }

  /** `null`: there is no such key. */
  get(key: string): Promise<Uint8Array | null | undefined> {
    return this.#send((client) => client.getBuffer(this.#prefix + key));
  }

  set(key: string, bytes: Uint8Array, ttlMs: number): Promise<'OK' | undefined> {
    const name = this.#prefix + key;
    return this.#send((client) => client.set(name, bytes, 'PX', Math.max(1, Math.round(ttlMs))));
  }

  close(): void {
    this.#connectionClosedMessage = true;
    clearTimeout(this.#timer);
    this.#client?.close();
    this.#client = undefined;
  }

  #send<T>(command: (client: RedisClient) => Promise<T>): Promise<T | undefined> {
    const client = this.#client;
    if (!client) return noAnswer;
    return this.#deadlines.within(command(client)).then(
      (answer) => {
        if (client === this.#client) this.#failures = 0;
        return answer;
      },
      (error) => {
        // Commands in flight when the connection broke must not count against the next one.
        if (client === this.#client) this.#countFailure(messageOf(error));
        return undefined;
      },
    );
  }

  /** A full server still reads, which resets the count: so a single refusal is enough. */
  #countFailure(failure: string): void {
    this.#failures += 1;
    if (this.#failures >= failuresToDisconnect || serverRefusal.test(failure))
      this.#disconnect(failure);
  }

  #disconnect(reason: string): void {
    const client = this.#client;
    this.#client = undefined;
    client?.close();
    if (this.#connectionClosedMessage) return;
    const wasStable = performance.now() - this.#backAt >= stableMs;
    this.#retryMs = wasStable ? redisRetryMs : Math.min(this.#retryMs * 2, redisRetryMsMax);
    this.#watcher.onAway(reason);
    this.#retryLater();
  }

  #retryLater(): void {
    this.#timer = setTimeout(async () => {
      const problem = await this.#connect();
      if (this.#connectionClosedMessage) this.close();
      else if (problem === undefined) this.#watcher.onBack();
      else this.#retryLater();
    }, this.#retryMs);
    this.#timer.unref();
  }

  /** A server must answer as fast as a command may take before it is trusted again. */
  async #connect(): Promise<string | undefined> {
    const client = new RedisClient(this.#url, {
      connectionTimeout: Math.max(redisRetryMs, this.#deadlines.ms),
      // Queued commands would hold their requests up; and this class decides when to connect again.
      autoReconnect: false,
      enableOfflineQueue: false,
    });
    try {
      await client.connect();
      await this.#deadlines.within(client.send('PING', []));
      // Otherwise a script's first run takes two round trips, and later commands overtake it.
      const loads = this.#scripts.map(({ text }) => client.send('SCRIPT', ['LOAD', text]));
      await this.#deadlines.within(Promise.allSettled(loads));
      const trials = quarters.map((tag) => runTrial(client, `${this.#prefix}trial:{${tag}}`));
      await this.#deadlines.within(Promise.all(trials));
    } catch (error) {
      client.close();
      return messageOf(error);
    }
    client.onclose = () => {
      if (this.#client === client) this.#disconnect('The connection was closed.');
    };
    this.#client = client;
    this.#failures = 0;
    this.#backAt = performance.now();
    return undefined;
  }
}

/** A Lua script: everything in it happens at once, on one round trip. */
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
 * Every command that counting and keeping answers need, tried before a server is trusted. A user
 * who lacks one would have limits that nobody counts, without a word in the log.
 */
const trial = new Script(`
redis.call('TIME')
redis.call('HSET', KEYS[1], 'trial', 1)
redis.call('PEXPIRE', KEYS[1], 1000)
redis.call('HMGET', KEYS[1], 'trial')
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 1, 'trial')
redis.call('ZCARD', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', 0)
redis.call('ZREM', KEYS[1], 'trial')
redis.call('SET', KEYS[1], 1, 'PX', 1000)
redis.call('GET', KEYS[1])
return redis.call('DEL', KEYS[1])
`);

/**
 * A trial that breaks off leaves its key as it is, of a kind that would break off the next one. Not
 * removed by the script: a full server refuses no script that has removed something.
 */
async function runTrial(client: RedisClient, key: string): Promise<void> {
  await client.send('DEL', [key]);
  await evaluate(client, trial, [trial.hash, '1', key]);
}

/** Names from all quarters of a cluster's keys: none of several nodes has all of them. */
const quarters = ['3', '2', '1', '0'];

const noAnswer = Promise.resolve(undefined);

/** The client says the same of a wrong password, of TLS that fails and of a port that is closed. */
const connectionClosedMessage =
  'The connection was closed: the address, its password or its TLS (rediss://) may be wrong.';

/** The server itself would name only the place of one key. */
const clusterNodeMessage =
  'MOVED: this is one node of a cluster, and other nodes have a part of the keys; Tollgate needs ' +
  'a server that has all of them.';

function messageOf(error: unknown): string {
  if (failureCode(error) === 'ERR_REDIS_CONNECTION_CLOSED') return connectionClosedMessage;
  const message = failureMessage(error);
  if (message.startsWith('MOVED ')) return clusterNodeMessage;
  // It repeats the words that it did not understand, and a script has many.
  return message.replace(
    / script: \w+, on @user_script:\d+\.$|, with args beginning with: .*$/s,
    '',
  );
}

/** How often deadlines are looked at. */
const tickMs = 20;

interface PendingCommand {
  readonly untilTick: number;
  readonly expire: () => void;
}

/**
 * One ticker for the deadlines of all commands: a timer for each would cost more than asking. They
 * are counted in ticks and not by the clock: while this process, or its whole machine, stands
 * still, no answer can come and none is missing.
 */
class Deadlines {
  readonly ms: number;
  readonly #pending = new Set<PendingCommand>();
  #ticks = 0;
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor(ms: number) {
    this.ms = ms;
  }

  /** Rejects when the answer takes longer than a command may, by a tick or two. */
  within<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const command: PendingCommand = {
        // +2: the first tick may come at once, and the last leaves time to read late answers.
        untilTick: this.#ticks + Math.ceil(this.ms / tickMs) + 2,
        expire: () => reject(new Error(`No answer within ${this.ms} ms.`)),
      };
      this.#pending.add(command);
      this.#ticker ??= setInterval(() => this.#tick(), tickMs).unref();
      answer.then(
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
      // A Set keeps the order of insertion: those behind it were asked later.
      if (command.untilTick > this.#ticks) break;
      this.#pending.delete(command);
      command.expire();
    }
    if (this.#pending.size > 0) return;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }
}
