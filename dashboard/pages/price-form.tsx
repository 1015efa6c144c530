import { useState } from 'preact/hooks';
import type { JsonObject } from '../../src/core/json.ts';
import { ApiError, requestJson } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Form, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { PricingFields } from '../components/price-fields.tsx';
import { time } from '../format.ts';
import { type PriceHistory, type Pricing, pricePath, pricingProblems } from '../price-history.ts';
import { useSaving } from '../saving.ts';
import { useSession } from '../session.ts';
import type { Price } from '../shapes.ts';
import { Conflict } from './configuration-conflict.tsx';

interface PriceFormProps {
  readonly history: PriceHistory;
  /** The scheduled price to change, or null for a new one. */
  readonly edited: Price | null;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Changes a price now or at a time, or edits a scheduled one. */
export function PriceForm({ history, edited, onDone, onClose }: PriceFormProps) {
  const { model, provider, current } = history;
  const form = usePriceForm({ history, edited, onDone });
  const { errors, theirs, pricing, at, source, date } = form;
  return (
    <Dialog title={edited ? 'Edit the scheduled price' : 'Change the price'} onClose={onClose}>
      <Form onSubmit={() => form.submit(edited?.version)}>
        <p class="hint">
          {model} at {provider}
          {edited?.from && `, from ${time(edited.from)} UTC`}. US dollars, exact to 9 decimals.
        </p>
        {!edited && (
          <TextField
            label="Starts at (UTC)"
            type="datetime-local"
            hint="Empty: in a few seconds, as soon as every process knows it."
            value={at}
            onValue={form.setAt}
            // The time is the last part of a price's name.
            error={errors.get('from') ?? errors.get('name')}
          />
        )}
        <PricingFields
          pricing={pricing}
          onPricing={form.setPricing}
          errorAt={(path) => errors.get(path)}
          before={current.pricing}
        />
        <div class="pair">
          <TextField
            label="Source"
            placeholder="optional"
            value={source}
            onValue={form.setSource}
            error={errors.get('price_source.name')}
          />
          <TextField
            label="Read on (UTC)"
            placeholder="2026-11-20"
            value={date}
            onValue={form.setDate}
            error={errors.get('price_source.date')}
          />
        </div>
        {edited && theirs !== undefined && (
          <Conflict
            base={documentOf(edited)}
            mine={form.document}
            theirs={theirs && { ...theirs, document: documentOf(theirs) }}
            onKeepMine={() => form.submit(theirs?.version ?? null)}
            onDiscard={onDone}
          />
        )}
        <FormEnd
          submitLabel={edited || at === '' ? 'Save' : 'Schedule'}
          action={{ ...form.action, error: form.error }}
          onClose={onClose}
        />
      </Form>
    </Dialog>
  );
}

function usePriceForm({ history, edited, onDone }: Omit<PriceFormProps, 'onClose'>) {
  const { model, provider, upstreamModel, current } = history;
  const { key } = useSession();
  const [pricing, setPricing] = useState<Pricing>((edited ?? current).pricing);
  const [at, setAt] = useState('');
  const [source, setSource] = useState(edited?.price_source?.name ?? '');
  const [date, setDate] = useState(edited?.price_source?.date ?? '');
  const { action, errors, theirs, save, fail } = useSaving<Price>(onDone);
  const document = { pricing, ...sourceField(source.trim(), date.trim()) };
  const add = () =>
    action.run(async () => {
      const endpoint = { model, provider, ...(upstreamModel && { upstream_model: upstreamModel }) };
      const body = { ...endpoint, ...(at !== '' && { from: `${at}:00Z` }), ...document };
      try {
        await requestJson('/admin/v1/prices', { key, method: 'POST', body });
      } catch (error) {
        if (error instanceof ApiError) fail(new Map([[error.param ?? '', error.message]]));
        throw error;
      }
      onDone();
    });
  /** Without a version, adds a price. */
  const submit = (version?: number | null) => {
    const problems = pricingProblems(pricing);
    fail(problems);
    if (problems.size > 0) return;
    if (!edited || version === undefined) add();
    else save({ path: pricePath(edited.name), body: document, version });
  };
  const isAtInput = [...errors.keys()].some((path) => inputPath.test(path));
  const error = isAtInput ? undefined : action.error;
  const values = { pricing, setPricing, at, setAt, source, setSource, date, setDate };
  return { ...values, action, errors, error, theirs, document, submit };
}

const inputPath = /^(?:pricing\.|price_source\.|from$|name$)/;

function documentOf({ pricing, price_source }: Price): JsonObject {
  const { name = '', date = null } = price_source ?? {};
  return { pricing, ...sourceField(name, date ?? '') };
}

function sourceField(name: string, date: string) {
  if (name === '' && date === '') return {};
  return { price_source: { name, ...(date === '' ? {} : { date }) } };
}
