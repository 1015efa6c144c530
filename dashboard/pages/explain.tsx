import { useState } from 'preact/hooks';
import { isObject, parseJson, textOf } from '../../src/core/json.ts';
import { requestData } from '../api.ts';
import { Badge, CircuitState, Empty, ErrorNote } from '../components/feedback.tsx';
import { Form, JsonField, SelectField, TextField } from '../components/field.tsx';
import { Card, DescriptionList, Page, Tile, Tiles } from '../components/page.tsx';
import { type Column, Table } from '../components/table.tsx';
import { count } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import { useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type {
  ConfigObject,
  ExcludedOffer,
  ExplainedEndpoint,
  Model,
  PlannedOffer,
  RouteExplanation,
  Tenant,
} from '../shapes.ts';
import { shortPrice } from './model-sheet.tsx';

const inputs: Readonly<Record<ExplainedEndpoint, object>> = {
  'chat/completions': { messages: [{ role: 'user', content: 'Hello!' }] },
  messages: { max_tokens: 1_000, messages: [{ role: 'user', content: 'Hello!' }] },
  responses: { input: 'Hello!' },
  embeddings: { input: 'Hello!' },
  'images/generations': { prompt: 'A toll gate' },
  'audio/speech': { input: 'Hello!', voice: 'alloy' },
};

function sampleBody(endpoint: ExplainedEndpoint, model: string): string {
  return JSON.stringify({ model, ...inputs[endpoint] }, null, 2);
}

/** Shows how a request would be routed, without sending it. */
export function Explain() {
  const [explanation, setExplanation] = useState<RouteExplanation>();
  return (
    <Page
      title="Explain a route"
      lead="Which providers a request would go to, and its highest charge. Nothing is sent."
    >
      <Card>
        <Request onExplanation={setExplanation} />
      </Card>
      {explanation && <Result explanation={explanation} />}
    </Page>
  );
}

interface RequestProps {
  readonly onExplanation: (explanation: RouteExplanation | undefined) => void;
}

function Request({ onExplanation }: RequestProps) {
  const { key, kind } = useSession();
  const model = useRoute().query.get('model') ?? '';
  const [endpoint, setEndpoint] = useState<ExplainedEndpoint>('chat/completions');
  const [tenant, setTenant] = useState('');
  const [keyId, setKeyId] = useState('');
  const [text, setText] = useState(() => sampleBody(endpoint, model));
  const action = useAction();
  const body = parseJson(text);
  const isOperator = kind === 'admin';
  const requested = isObject(body) ? textOf(body.model) : model;
  const choose = (chosen: string) => {
    const next = chosen as ExplainedEndpoint;
    setEndpoint(next);
    setText(sampleBody(next, requested));
  };
  const setModel = (name: string) => {
    if (isObject(body)) setText(JSON.stringify({ ...body, model: name }, null, 2));
  };
  const submit = () =>
    action.run(async () => {
      if (!isObject(body)) return;
      onExplanation(undefined);
      const query = new URLSearchParams({ endpoint });
      if (tenant.trim() !== '') query.set('tenant', tenant.trim());
      if (keyId.trim() !== '') query.set('api_key_id', keyId.trim());
      const path = `${isOperator ? '/admin' : ''}/v1/route/explain?${query}`;
      onExplanation(await requestData<RouteExplanation>(path, { key, method: 'POST', body }));
    });
  return (
    <Form onSubmit={submit}>
      <div class="pair">
        <SelectField
          label="Endpoint"
          value={endpoint}
          onValue={choose}
          options={Object.keys(inputs).map((name) => [name, `/v1/${name}`] as const)}
        />
        <ModelField value={requested} onValue={setModel} />
        {isOperator && <TenantField value={tenant} onValue={setTenant} />}
        {isOperator && (
          <TextField label="API key ID" placeholder="any" value={keyId} onValue={setKeyId} />
        )}
      </div>
      <JsonField
        label="Request body"
        rows={10}
        value={text}
        onValue={setText}
        error={isObject(body) ? undefined : 'This is not a valid JSON object.'}
      />
      <ErrorNote message={action.error} />
      <footer class="buttons">
        <button type="submit" class="primary" disabled={action.busy || !isObject(body)}>
          Explain
        </button>
      </footer>
    </Form>
  );
}

interface FieldProps {
  readonly value: string;
  readonly onValue: (value: string) => void;
}

/** Suggests the models that can be called, and for operators the aliases. */
function ModelField(props: FieldProps) {
  const { key, kind } = useSession();
  const { data = [] } = useLoad('names of models', async (signal) => {
    const call = { key, signal };
    if (kind !== 'admin') {
      const callable = await requestData<Model[]>('/v1/models', call);
      return callable.map(({ id }) => id);
    }
    const [aliases, models] = await Promise.all([
      requestData<ConfigObject[]>('/admin/v1/aliases', call),
      requestData<ConfigObject[]>('/admin/v1/models', call),
    ]);
    return [...aliases, ...models.filter(({ live }) => live)].map(({ name }) => name);
  });
  return <TextField label="Model or alias" {...props} suggestions={data} />;
}

function TenantField(props: FieldProps) {
  const { key } = useSession();
  const path = `/admin/v1/tenants?${new URLSearchParams({ search: props.value, sort: 'name' })}`;
  const { data = [] } = useLoad(path, (signal) => requestData<Tenant[]>(path, { key, signal }));
  const ids = data.map(({ id }) => id);
  return <TextField label="Tenant ID" placeholder="any" {...props} suggestions={ids} />;
}

/** One provider of the plan. */
function Step({ offer }: { readonly offer: PlannedOffer }) {
  const { provider, model, upstream_model, traffic_mode, circuit, weight, dropped } = offer;
  const details: [string, string][] = [
    ['Price', shortPrice(offer)],
    ['Hold', count(offer.hold)],
    ['Highest charge', count(offer.max_charge)],
    ...(weight === null ? [] : [['Weight', count(weight)] as [string, string]]),
  ];
  return (
    <>
      <p class="badges">
        <b>{provider}</b>
        <code>{model}</code>
        {upstream_model !== undefined && <small>as {upstream_model}</small>}
        <CircuitState circuit={circuit} />
        {traffic_mode === 'byok' && <Badge tone="accent">BYOK</Badge>}
      </p>
      <DescriptionList items={details} />
      {dropped.length > 0 && (
        <p>
          <Badge tone="warn">not sent</Badge> {dropped.join(', ')}
        </p>
      )}
    </>
  );
}

const excludedColumns: readonly Column<ExcludedOffer>[] = [
  { title: 'Provider', isHead: true, cell: ({ provider }) => <b>{provider ?? 'all'}</b> },
  { title: 'Model', cell: ({ model }) => <code>{model}</code> },
  { title: 'Reason', cell: ({ reason }) => reason },
];

const offerKey = ({
  model,
  provider,
  traffic_mode,
  upstream_model,
}: ExcludedOffer | PlannedOffer) => [model, provider, traffic_mode, upstream_model].join(' ');

const creditsOrNone = (credits: number | null) => (credits === null ? '–' : count(credits));

function Result({ explanation }: { readonly explanation: RouteExplanation }) {
  const { models, plan, excluded, hold, max_charge, error } = explanation;
  return (
    <div role="status">
      {error && (
        <p class="note bad">
          The request would be rejected with status {error.status}: {error.message}
        </p>
      )}
      <Tiles>
        <Tile name="Models" value={models.join(', ') || '–'} />
        <Tile name="Hold" value={creditsOrNone(hold)} below="credits, before it is sent" />
        <Tile name="Highest charge" value={creditsOrNone(max_charge)} below="credits" />
      </Tiles>
      {plan.length === 0 && <Empty title="No provider would be tried" />}
      {plan.length > 0 && (
        <Card title="Providers, in the order they are tried">
          <ol class="route" aria-label="Plan">
            {plan.map((offer) => (
              <li key={offerKey(offer)}>
                <Step offer={offer} />
              </li>
            ))}
          </ol>
          <p class="hint">
            If one fails before the client has received output, the next one is tried.
          </p>
        </Card>
      )}
      {excluded.length > 0 && (
        <Card title="Not tried">
          <Table label="Not tried" columns={excludedColumns} rows={excluded} rowKey={offerKey} />
        </Card>
      )}
    </div>
  );
}
