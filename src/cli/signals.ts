import { isatty } from 'node:tty';

/** The first signal asks to finish running requests, the second not to wait for them. */
export interface StopSignal {
  readonly asked: Promise<void>;
  readonly again: Promise<void>;
  /** Asks to stop, as a signal would. */
  ask(): void;
}

export function stopSignal(): StopSignal {
  const asked = Promise.withResolvers<void>();
  const again = Promise.withResolvers<void>();
  let count = 0;
  const ask = () => (count++ === 0 ? asked : again).resolve();
  process.on('SIGTERM', ask);
  process.on('SIGINT', ask);
  return { asked: asked.promise, again: again.promise, ask };
}

/**
 * SIGHUP asks to read the configuration again. Before there is anything to reload it must not end
 * the process, as it would by default. When it comes because the terminal was closed it must end
 * it: nobody could find the process afterwards.
 */
export function reloadSignal(stop: StopSignal): { call(reload: () => void): void } {
  const hadTerminal = isatty(0);
  let reload = () => {};
  let missed = false;
  process.on('SIGHUP', () => {
    if (hadTerminal && !isatty(0)) return stop.ask();
    missed = true;
    reload();
  });
  return {
    call(what) {
      reload = what;
      if (missed) what();
    },
  };
}
