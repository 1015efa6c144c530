import { useState } from 'preact/hooks';
import { type FeeKindEntry, feeEntries, pricedFee } from '../../src/money/price/fee-kinds.ts';
import { isPriceName, perLabel, priceClasses } from '../../src/money/price/price-classes.ts';
import { requestData, requestJson } from '../api.ts';
import { CodeLine, CopyButton } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Badge, ErrorNote, Loading } from '../components/feedback.tsx';
import { useKeyNames } from '../components/key-choice.tsx';
import { DescriptionList } from '../components/page.tsx';
import { count, exactAmount, milliseconds, price, time, usd } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import { closeOverlay, urlFor } from '../route.ts';
import { useSession } from '../session.ts';
import type { Receipt } from '../shapes.ts';
import { Attempts } from './receipt-attempts.tsx';
import { Failure } from './receipt-failure.tsx';

/** A request with its attempts and an itemized charge. */
export function ReceiptSheet({ id }: { readonly id: string }) {
  const { key } = useSession();
  const path = `/v1/customer/logs/${encodeURIComponent(id)}`;
  const loaded = useLoad(path, (signal) => requestData<Receipt>(path, { key, signal }));
  return (
    <Dialog title="Receipt" variant="sheet" onClose={() => closeOverlay('request')}>
      <Loading loaded={loaded} text="Loading receipt…" />
      {loaded.data && <Content receipt={loaded.data} />}
    </Dialog>
  );
}

function Content({ receipt }: { readonly receipt: Receipt }) {
  const { status, error, cost, model, created_at, api_key_id } = receipt;
  const keyName = useKeyNames().get(api_key_id) ?? api_key_id;
  return (
    <>
      <div class="receipt-head">
        <p>
          <code>{model || 'no model'}</code>
          <Badge tone={status === 'success' ? 'good' : 'bad'}>{error ?? status}</Badge>
        </p>
        <p class="receipt-total">
          <strong>{count(cost)}</strong> {cost === 1 ? 'credit' : 'credits'}
          {cost > 0 && `, ${usd(receipt.usd)}`}
        </p>
        <p class="hint">
          {time(created_at)} UTC, key <a href={urlFor('logs', { key: api_key_id })}>{keyName}</a>
        </p>
      </div>
      <Failure receipt={receipt} />
      <Bill receipt={receipt} />
      {receipt.billing_note && <p class="note">{receipt.billing_note}</p>}
      <Tokens receipt={receipt} />
      <Attempts receipt={receipt} />
      <Details receipt={receipt} />
      <Generation receipt={receipt} />
    </>
  );
}

function lineLabel(price: string): string {
  return isPriceName(price) ? priceClasses[price].label : price;
}

/** Returns what a fee counts, such as `2 web searches`, or null. */
function feeQuantity({ quantity }: FeeKindEntry, receipt: Receipt): string | null {
  if (!quantity || receipt[quantity.field] === 0) return null;
  const number = receipt[quantity.field];
  return `${count(number)} ${number === 1 ? quantity.singular : quantity.plural}`;
}

function Bill({ receipt }: { readonly receipt: Receipt }) {
  const { lines, cost_breakdown, not_charged, cost, prices } = receipt;
  const aboveTokens = receipt.prices_above_tokens;
  const feeOfLines = pricedFee[receipt.traffic_mode === 'byok' ? 'byok' : 'shared'];
  const fees = feeEntries
    .map(([kind, entry]) => {
      const notCharged = kind === feeOfLines ? not_charged : 0;
      return { kind, entry, due: (cost_breakdown[entry.name] ?? 0) + notCharged };
    })
    .filter(({ due }) => due > 0);
  const points = prices?.byok_fee_basis_points;
  return (
    <section>
      <h3>Charge</h3>
      <table class="bill" aria-label="Charge breakdown">
        <tbody>
          {lines.map((line) => (
            <tr key={`${line.price} ${line.usd}`}>
              <th scope="row">
                {lineLabel(line.price)}
                <small>
                  {line.quantity.toLocaleString('en-US')} × {price(line.usd)} {perLabel(line.per)}
                </small>
              </th>
              <td class="number">{exactAmount(line.credits)}</td>
            </tr>
          ))}
          {fees.map(({ kind, entry, due }) => (
            <tr key={kind} class="fee">
              <th scope="row">
                {entry.label}
                {kind === 'byokPlatformFee' && points && (
                  <small>{Number(points) / 100}% of the list price above</small>
                )}
                {kind === 'modelCharge' && lines.length > 0 && <small>rounded up once</small>}
                {feeQuantity(entry, receipt) && <small>{feeQuantity(entry, receipt)}</small>}
              </th>
              <td class="number">{count(due)}</td>
            </tr>
          ))}
          {not_charged > 0 && (
            <tr class="fee">
              <th scope="row">Not charged</th>
              <td class="number">{count(-not_charged)}</td>
            </tr>
          )}
          <tr class="total">
            <th scope="row">Total charged (credits)</th>
            <td class="number">{count(cost)}</td>
          </tr>
        </tbody>
      </table>
      {aboveTokens !== null && (
        <p class="hint">
          The prices for prompts above {count(aboveTokens)} tokens apply to the entire request.
        </p>
      )}
    </section>
  );
}

function Tokens({ receipt }: { readonly receipt: Receipt }) {
  const { tokens, usage_estimated } = receipt;
  const tokenCounts = [
    ['Input', tokens.input + tokens.audio],
    ...(tokens.audio > 0 ? [['Of which audio', tokens.audio] as const] : []),
    ['Cache read', tokens.cache_read],
    ['Cache write', tokens.cache_write + tokens.cache_write_1h],
    ...(tokens.cache_write_1h > 0 ? [['Of which 1 hour', tokens.cache_write_1h] as const] : []),
    ['Output', tokens.completion],
    ['Of which reasoning', tokens.reasoning],
  ] as const;
  return (
    <section>
      <h3>Tokens {usage_estimated && <Badge tone="warn">estimated</Badge>}</h3>
      <DescriptionList
        areNumbers
        items={tokenCounts.map(([name, value]) => [name, count(value)])}
      />
    </section>
  );
}

function Details({ receipt }: { readonly receipt: Receipt }) {
  const details: [string, string][] = [
    ['Endpoint', receipt.operation],
    ['Streamed', receipt.streamed ? 'yes' : 'no'],
    ['Finish reason', receipt.finish_reason ?? '–'],
    ['Traffic mode', receipt.traffic_mode === 'byok' ? 'BYOK' : 'shared capacity'],
    ['Answered from cache', receipt.cache_hit ? 'yes' : 'no'],
    ['Client disconnected', receipt.cancelled ? 'yes' : 'no'],
    ['First byte', receipt.first_byte_ms === null ? '–' : milliseconds(receipt.first_byte_ms)],
    ['Total time', milliseconds(receipt.latency_ms)],
    ['Web searches', count(receipt.search_requests)],
    ['Skills', receipt.skills_used.join(', ') || '–'],
    ['End user', receipt.user ?? '–'],
  ];
  if (receipt.job_id !== null) details.push(['Part of job', receipt.job_id]);
  return (
    <section>
      <h3>Details</h3>
      <DescriptionList items={details} />
    </section>
  );
}

/** The generation record of the request, as the public API returns it. */
function Generation({ receipt }: { readonly receipt: Receipt }) {
  const { key } = useSession();
  const [record, setRecord] = useState<string>();
  const action = useAction();
  const { request_id, generation_url } = receipt;
  const show = () =>
    action.run(async () => {
      setRecord(JSON.stringify(await requestJson(generation_url, { key }), null, 2));
    });
  return (
    <section>
      <h3>Request ID</h3>
      <p class="id-line">
        <code>{request_id}</code>
        <CopyButton text={request_id} label="request ID" />
      </p>
      {record === undefined ? (
        <button type="button" class="secondary small" onClick={show} disabled={action.busy}>
          Show generation record
        </button>
      ) : (
        <CodeLine text={record} label="generation record" />
      )}
      <ErrorNote message={action.error} />
    </section>
  );
}
