import { Badge } from '../components/notes.tsx';
import { milliseconds } from '../format.ts';
import type { Attempt, Receipt } from '../shapes.ts';

/** How an attempt ended, in words; an outcome that is not listed shows the gateway's own word. */
const outcomes: Readonly<Record<string, string>> = {
  answered: 'answered',
  request: 'refused the request',
  credential: 'refused the credential',
  rate_limited: 'rate limited',
  quota: 'out of quota',
  overloaded: 'overloaded',
  timeout: 'too slow',
  server: 'failed',
  unreachable: 'unreachable',
  malformed: 'answered nonsense',
  client_disconnected: 'client disconnected',
  broken: 'broke off',
};

/** Where the request went, one bar below the other, on one scale of time. */
export function Attempts({ receipt }: { readonly receipt: Receipt }) {
  const { attempts, latency_ms } = receipt;
  if (attempts.length === 0) {
    return (
      <section>
        <h3>Attempts</h3>
        <p class="hint">
          It was {receipt.status === 'error' ? 'refused' : 'answered'} here and sent to no provider.
        </p>
      </section>
    );
  }
  const tried = attempts.reduce((sum, { ms }) => sum + ms, 0);
  const totalMs = Math.max(latency_ms, tried, 1);
  return (
    <section>
      <h3>Attempts</h3>
      <ol class="attempts">
        {attempts.map((attempt, at) => {
          const isBroken = receipt.error === 'upstream_error' && at === attempts.length - 1;
          const startMs = attempts.slice(0, at).reduce((sum, { ms }) => sum + ms, 0);
          return (
            <li key={`${attempt.provider}-${startMs}-${attempt.outcome}`}>
              <Waterfall
                attempt={isBroken ? broken(attempt) : attempt}
                startMs={startMs}
                totalMs={totalMs}
              />
            </li>
          );
        })}
      </ol>
      <p class="hint">
        A bar ends at the first byte of an answer. The whole request took {milliseconds(latency_ms)}
        .
      </p>
    </section>
  );
}

/**
 * An attempt ends at the first byte of its answer; only the request knows that the answer broke off
 * later.
 */
function broken(attempt: Attempt): Attempt {
  return attempt.outcome === 'answered' ? { ...attempt, outcome: 'broken', status: null } : attempt;
}

interface WaterfallProps {
  readonly attempt: Attempt;
  readonly startMs: number;
  readonly totalMs: number;
}

function Waterfall({ attempt, startMs, totalMs }: WaterfallProps) {
  const { provider, model, own_account: isOwn, outcome, status, message, ms } = attempt;
  const isGood = outcome === 'answered';
  const percentOfTotal = (value: number) => `${((value / totalMs) * 100).toFixed(2)}%`;
  return (
    <>
      <p>
        <b>{provider}</b>
        {isOwn && ' (own account)'} <code>{model}</code>
        <Badge tone={isGood ? 'good' : 'bad'}>
          {outcomes[outcome] ?? outcome}
          {!isGood && status !== null ? ` (${status})` : ''}
        </Badge>
        <span class="attempt-time">{milliseconds(ms)}</span>
      </p>
      <div class="waterfall" aria-hidden="true">
        <i
          class={isGood ? 'good' : 'bad'}
          style={{ marginLeft: percentOfTotal(startMs), width: `max(3px, ${percentOfTotal(ms)})` }}
        />
      </div>
      {message && <p class="hint">{message}</p>}
    </>
  );
}
