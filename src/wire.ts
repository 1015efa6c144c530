import { type FreshSecrets, firstStart } from './auth/first-start.ts';
import type { Config, Model } from './config/config.ts';
import { version } from './config/version.ts';
import { HttpServer } from './http/server.ts';
import { WaitingRoom } from './http/waiting-room.ts';
import { chatModelOf } from './route/capability.ts';
import { storeAway } from './store/away.ts';
import { openStore, type Store } from './store/open.ts';
import type { Log } from './telemetry/log.ts';
import { repeatAll } from './wire/chores.ts';
import { configure } from './wire/configured.ts';
import { type CrewPlace, openLasting } from './wire/lasting.ts';
import { openLate } from './wire/late-store.ts';
import { type Reloading, reloading } from './wire/reload.ts';

/** A built Tollgate, not yet listening. */
export interface Tollgate {
  readonly firstSecrets: FreshSecrets | undefined;
  readonly models: readonly Model[];
  /** A model that can chat, suggested for the first question; undefined where there is none. */
  readonly chatModel: Model | undefined;
  readonly engine: string;
  /** Starts serving, alone on its port or with other processes; returns the port in use. */
  listen(sharesPort?: boolean): number;
  /**
   * Serves by other settings from the next request on. If it cannot, throws and changes nothing.
   */
  reload(wanted: Config): Reloading & { readonly models: number };
  /** Lets running requests finish, writes everything down and closes. */
  drain(seconds: number): Promise<void>;
}

export interface CrewMember extends CrewPlace {
  /** Whether other processes already serve at this port and answer while this one waits. */
  readonly isJoining: boolean;
  /** Resolves when the process is told to stop, which ends the wait for the database. */
  readonly stopped: Promise<void>;
}

/** Builds Tollgate as soon as its database can be reached; undefined if stopped before that. */
export async function buildLate(
  config: Config,
  log: Log,
  member: CrewMember,
): Promise<Tollgate | undefined> {
  const { worker, isJoining, stopped } = member;
  const room = new WaitingRoom(version);
  const { host, port } = config.server;
  const wait = (why: string) => room.wait(host, port, worker !== null, why);
  const store = await openLate(config, log, stopped, isJoining ? undefined : { wait });
  if (store) return assemble(config, store, log, member, room);
  await room.close();
  return undefined;
}

export async function build(config: Config, log: Log, crew = 1): Promise<Tollgate> {
  const store = await openStore(config.database.reveal());
  return assemble(config, store, log, { worker: null, crew }, new WaitingRoom(version));
}

/** Builds every part by hand. With the files of wire/ the only place that may import everything. */
async function assemble(
  config: Config,
  store: Store,
  log: Log,
  place: CrewPlace,
  room: WaitingRoom,
): Promise<Tollgate> {
  const lasting = await openLasting(config, store, log, place);
  // After everything that may refuse the start: the secrets made here are shown only once.
  const firstSecrets = await firstStart(config.bootstrap, {
    directory: store.directory,
    grantOnce: (tenantId, credits) => grantOnce(store, tenantId, credits),
    now: Date.now(),
  });
  // Before anything is remembered: the first check makes this process forget all it has read.
  await lasting.changes.check();
  const { authenticator, books, counters, demo, health, redis, retention, telemetry } = lasting;
  const isDraining = () => server.draining;
  let configured = configure(config, lasting, isDraining);
  const { models } = configured;
  const server: HttpServer = new HttpServer({
    routes: configured.routes,
    authenticator,
    log,
    answers: telemetry.answers,
    tellRate: (caller, headers) => configured.admission.tellRate(caller, headers),
    explain: storeAway,
  });
  telemetry.addSources(books, health, () => server.openRequests);
  const chores = repeatAll([...lasting.chores(), ...server.chores()]);
  let running = config;
  return {
    firstSecrets,
    models,
    chatModel: chatModelOf(models),
    engine: store.database.engine,
    listen(sharesPort = false) {
      void retention?.run();
      const { host, port: wanted } = config.server;
      lasting.door.port = server.listen(host, wanted, sharesPort, room);
      return lasting.door.port;
    },
    reload(wanted) {
      const { config: next, needRestart } = reloading(running, wanted);
      configured = configure(next, lasting, isDraining);
      server.replaceRoutes(configured.routes);
      running = next;
      return { config: next, needRestart, models: configured.models.length };
    },
    async drain(seconds) {
      const cutShort = () => {
        lasting.jobs.breakOff();
        lasting.watch.end();
      };
      await Promise.all([server.drain(seconds, cutShort), lasting.jobs.stop(seconds)]);
      chores.stop();
      await retention?.stop();
      await books.close();
      // After the books: the last requests may have left an answer that is still to be written.
      await lasting.idempotency.close();
      await authenticator.markUsed();
      await demo.stop();
      await telemetry.stop();
      await counters.together?.places.tellLeft();
      redis?.close();
      await store.database.close();
    },
  };
}

async function grantOnce(store: Store, tenantId: string, credits: number): Promise<void> {
  await store.creditBook.change({
    tenantId,
    amount: credits,
    note: 'First grant',
    idempotencyKey: 'first-start',
    now: Date.now(),
  });
}
