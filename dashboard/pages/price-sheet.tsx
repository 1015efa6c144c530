import { useState } from 'preact/hooks';
import { priceClasses } from '../../src/money/price/price-classes.ts';
import { requestJson } from '../api.ts';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Badge } from '../components/feedback.tsx';
import { count, price, time } from '../format.ts';
import {
  changeText,
  type PriceHistory,
  type Pricing,
  pricePath,
  setPrices,
  sourceText,
  unsetText,
} from '../price-history.ts';
import { urlFor } from '../route.ts';
import { useSession } from '../session.ts';
import type { Price } from '../shapes.ts';
import { PriceForm } from './price-form.tsx';

interface SheetProps {
  readonly history: PriceHistory;
  readonly onChange: () => void;
  readonly onClose: () => void;
}

/** The prices of one model at one provider: scheduled ones, the one in force, and past ones. */
export function PriceSheet({ history, onChange, onClose }: SheetProps) {
  const { name, model, provider, upstreamModel, prices } = history;
  /** A price to change, or null for a new one. */
  const [edited, setEdited] = useState<Price | null>();
  const [canceled, setCanceled] = useState<Price>();
  const newestFirst = prices.toReversed();
  return (
    <Dialog
      title={
        upstreamModel === undefined
          ? `${model} at ${provider}`
          : `${model} at ${provider} (${upstreamModel})`
      }
      variant="sheet"
      onClose={onClose}
    >
      <p class="buttons">
        <button type="button" class="primary" onClick={() => setEdited(null)}>
          Change the price
        </button>
        <a class="button secondary" href={urlFor('explain', { model })}>
          Explain a route
        </a>
      </p>
      <ol class="timeline" aria-label="Prices, latest first">
        {newestFirst.map((one, index) => (
          <PriceEntry
            key={`${name} ${one.from}`}
            entry={one}
            before={newestFirst[index + 1]?.pricing}
            onEdit={() => setEdited(one)}
            onCancel={() => setCanceled(one)}
          />
        ))}
      </ol>
      {edited !== undefined && (
        <PriceForm
          history={history}
          edited={edited}
          onClose={() => setEdited(undefined)}
          onDone={() => {
            setEdited(undefined);
            onChange();
          }}
        />
      )}
      {canceled && (
        <CancelPrice
          canceled={canceled}
          onClose={() => setCanceled(undefined)}
          onDone={() => {
            setCanceled(undefined);
            onChange();
          }}
        />
      )}
    </Dialog>
  );
}

const states = {
  scheduled: { tone: 'accent', text: 'scheduled' },
  in_force: { tone: 'good', text: 'in force' },
  past: { tone: 'plain', text: 'past' },
} as const;

interface EntryProps {
  readonly entry: Price;
  readonly before: Pricing | undefined;
  readonly onEdit: () => void;
  readonly onCancel: () => void;
}

function PriceEntry({ entry, before, onEdit, onCancel }: EntryProps) {
  const { from, pricing, state, owner } = entry;
  const { tone, text } = states[state];
  return (
    <li class={state}>
      <p class="badges">
        <b>{from === null ? 'Initial price' : `From ${time(from)} UTC`}</b>
        <Badge tone={tone}>{text}</Badge>
      </p>
      <PriceList pricing={pricing} before={before} />
      {pricing.long_prompts?.map(({ above_tokens, ...changed }, index) => (
        <div key={above_tokens}>
          <p class="hint">Entire request, if the prompt exceeds {count(above_tokens)} tokens:</p>
          <PriceList pricing={changed} before={before?.long_prompts?.[index]} />
        </div>
      ))}
      {entry.price_source && <p class="hint">Read from {sourceText(entry.price_source)}.</p>}
      <p class="hint">{originOf(entry)}</p>
      {state === 'scheduled' && owner === 'store' && (
        <p class="buttons">
          <button type="button" class="secondary small" onClick={onEdit}>
            Edit
          </button>
          <button type="button" class="secondary small" onClick={onCancel}>
            Cancel this change
          </button>
        </p>
      )}
    </li>
  );
}

/** Returns who set a price, and where. */
function originOf({ owner, source, from, created_by, updated_by, updated_at }: Price): string {
  if (owner === 'file') return `Set in ${source ?? 'the file'}, and locked.`;
  if (owner === 'built_in') return 'From the built-in catalog.';
  if (from === null) return `Set in the model by ${updated_by ?? 'an operator'}.`;
  return `Set by ${updated_by ?? created_by ?? 'an operator'} on ${time(updated_at ?? '')} UTC.`;
}

interface PriceListProps {
  readonly pricing: Pricing;
  readonly before: Pricing | undefined;
}

function PriceList({ pricing, before }: PriceListProps) {
  const removed = before ? setPrices(before).filter(([name]) => pricing[name] === undefined) : [];
  return (
    <ul class="prices">
      {setPrices(pricing).map(([name, text]) => {
        const change = before && changeText(before[name], text);
        return (
          <li key={name}>
            <b>{price(text)}</b> {priceClasses[name].priceLabel}
            {change !== undefined && <small> ({change})</small>}
          </li>
        );
      })}
      {removed.map(([name]) => (
        <li key={name}>
          <del>{priceClasses[name].priceLabel}</del> <small>({unsetText(name)})</small>
        </li>
      ))}
    </ul>
  );
}

interface CancelProps {
  readonly canceled: Price;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function CancelPrice({ canceled, onDone, onClose }: CancelProps) {
  const { key } = useSession();
  const { name, from, version } = canceled;
  return (
    <Confirm
      title="Cancel this change?"
      confirmLabel="Cancel the change"
      onClose={onClose}
      work={async () => {
        const headers = { 'if-match': `"${version}"` };
        await requestJson(pricePath(name), { key, method: 'DELETE', headers });
        onDone();
      }}
    >
      <p>The prices that apply before {time(from ?? '')} UTC stay in force.</p>
    </Confirm>
  );
}
