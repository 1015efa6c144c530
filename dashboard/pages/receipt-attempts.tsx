import { Badge } from '../components/feedback.tsx';
import { milliseconds } from '../format.ts';
import type { Attempt, Receipt } from '../shapes.ts';

/** Display names of outcomes. Other outcomes are shown as the API returns them. */
const outcomeNames: Readonly<Record<string, string>> = {
  answered: 'answered',
  request: 'rejected the request',
  credential: 'rejected the key',
  rate_limited: 'rate limited',
  quota: 'out of quota',
  overloaded: 'overloaded',
  timeout: 'timed out',
  server: 'server error',
  unreachable: 'unreachable',
  malformed: 'invalid response',
  client_disconnected: 'client disconnected',
  interrupted: 'interrupted',
};

/** Lists the attempts of a request with their times as a waterfall chart. */
export function Attempts({ receipt }: { readonly receipt: Receipt }) {
  const { attempts, latency_ms } = receipt;
  if (attempts.length === 0) {
    return (
      <section>
        <h3>Attempts</h3>
        <p class="hint">
          The gateway {receipt.status === 'error' ? 'rejected' : 'answered'} this request without
          calling a provider.
        </p>
      </section>
    );
  }
  const attemptsMs = attempts.reduce((sum, { ms }) => sum + ms, 0);
  const totalMs = Math.max(latency_ms, attemptsMs, 1);
  return (
    <section>
      <h3>Attempts</h3>
      <ol class="attempts">
        {attempts.map((attempt, index) => {
          const isInterrupted = receipt.error === 'upstream_error' && index === attempts.length - 1;
          const startMs = attempts.slice(0, index).reduce((sum, { ms }) => sum + ms, 0);
          return (
            <li key={`${attempt.provider}-${startMs}-${attempt.outcome}`}>
              <Waterfall
                attempt={isInterrupted ? withInterruption(attempt) : attempt}
                startMs={startMs}
                totalMs={totalMs}
              />
            </li>
          );
        })}
      </ol>
      <p class="hint">
        Each bar ends at the first byte of the answer. Total time: {milliseconds(latency_ms)}.
      </p>
    </section>
  );
}

/**
 * Marks the last attempt of an interrupted answer as interrupted. Attempts end at the first byte,
 * so they don't record what happens to the answer later.
 */
function withInterruption(attempt: Attempt): Attempt {
  if (attempt.outcome !== 'answered') return attempt;
  return { ...attempt, outcome: 'interrupted', status: null };
}

interface WaterfallProps {
  readonly attempt: Attempt;
  readonly startMs: number;
  readonly totalMs: number;
}

function Waterfall({ attempt, startMs, totalMs }: WaterfallProps) {
  const { provider, model, own_account: isOwn, dropped, outcome, status, message, ms } = attempt;
  const isGood = outcome === 'answered';
  const percentOfTotal = (value: number) => `${((value / totalMs) * 100).toFixed(2)}%`;
  return (
    <>
      <p>
        <b>{provider}</b>
        {isOwn && ' (BYOK)'} <code>{model}</code>
        <Badge tone={isGood ? 'good' : 'bad'}>
          {outcomeNames[outcome] ?? outcome}
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
      {dropped && <p class="hint">Not sent: {dropped.join(', ')}</p>}
    </>
  );
}
