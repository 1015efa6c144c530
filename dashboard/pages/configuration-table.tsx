import type { ComponentChildren } from 'preact';
import { objectsIn } from '../../src/core/json.ts';
import { Ago } from '../components/ago.tsx';
import { Badge, CircuitState } from '../components/feedback.tsx';
import { Card } from '../components/page.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type Column, Table } from '../components/table.tsx';
import type { ConfigKind } from '../config-kinds.ts';
import { plural } from '../format.ts';
import { openOverlay, urlFor } from '../route.ts';
import type { ConfigObject, ProviderHealth } from '../shapes.ts';
import { targetsOf } from './configuration-alias.tsx';
import { marginText } from './configuration-plan.tsx';
import { keyShare, ProviderKeyState } from './configuration-provider-keys.tsx';
import { shortPrice } from './model-sheet.tsx';
import { reasonsOf } from './operator-recent-calls.tsx';

interface ConfigTableProps {
  readonly kind: ConfigKind;
  readonly objects: readonly ConfigObject[];
  readonly onDelete: (object: ConfigObject) => void;
  readonly onTest: (name: string) => void;
  /** Shown below the table. */
  readonly children: ComponentChildren;
}

export function ConfigTable({ kind, objects, onDelete, onTest, children }: ConfigTableProps) {
  const columns: Column<ConfigObject>[] = [
    { title: 'Name', isHead: true, cell: (object) => <Name object={object} /> },
    { title: 'Owner', cell: (object) => <Owner kind={kind} object={object} /> },
    ...(kindColumns[kind.plural] ?? []),
    {
      title: 'Actions',
      cell: (object) => (
        <span class="row-actions">
          {kind.plural === 'providers' && (
            <RowAction
              text="Test"
              label={`Test ${object.name}`}
              onClick={() => onTest(object.name)}
            />
          )}
          {isConfigurable(object) && <OpenAction kind={kind} object={object} />}
          {object.owner === 'store' && (
            <RowAction
              text="Delete"
              label={`Delete ${object.name}`}
              onClick={() => onDelete(object)}
            />
          )}
        </span>
      ),
    },
  ];
  return (
    <Card>
      <Table label={kind.title} columns={columns} rows={objects} rowKey={({ name }) => name} />
      {children}
    </Card>
  );
}

/** False for the demo, which has no configuration. */
function isConfigurable({ config }: ConfigObject): boolean {
  return config === undefined || Object.keys(config).length > 0;
}

const openEditor = (name: string) => openOverlay({ edit: name });

function Name({ object }: { readonly object: ConfigObject }) {
  const { name } = object;
  if (!isConfigurable(object)) return <b>{name}</b>;
  return (
    <button type="button" class="link strong" onClick={() => openEditor(name)}>
      {name}
    </button>
  );
}

interface ObjectProps {
  readonly kind: ConfigKind;
  readonly object: ConfigObject;
}

const openTexts = { built_in: 'Replace', file: 'View', store: 'Edit' } as const;

function OpenAction({ kind, object: { name, owner } }: ObjectProps) {
  const text = owner === 'built_in' && !kind.example ? 'Change' : openTexts[owner];
  return <RowAction text={text} label={`${text} ${name}`} onClick={() => openEditor(name)} />;
}

function Owner({ kind, object: { owner, source, updated_at } }: ObjectProps) {
  if (owner === 'built_in') return <Badge>{kind.example ? 'built in' : 'default'}</Badge>;
  return (
    <span class="two-lines">
      <Badge tone={owner === 'store' ? 'accent' : 'plain'}>
        {owner === 'store' ? 'store' : 'file, locked'}
      </Badge>
      <small title={source ?? ''}>
        {source === null ? <Ago iso={updated_at} /> : source.split('/').at(-1)}
      </small>
    </span>
  );
}

const healthOf = (object: ConfigObject) => object as ConfigObject & ProviderHealth;

const providerColumns: readonly Column<ConfigObject>[] = [
  { title: 'Dialect', cell: (object) => <code class="one-line">{healthOf(object).dialect}</code> },
  { title: 'Status', cell: (object) => <ProviderStatus provider={healthOf(object)} /> },
  { title: 'Keys', cell: (object) => <KeyStates provider={healthOf(object)} /> },
  { title: 'Recent failures', cell: (object) => <RecentFailures provider={healthOf(object)} /> },
];

function ProviderStatus({ provider }: { readonly provider: ProviderHealth }) {
  const { circuit, endpoints } = provider;
  return (
    <span class="two-lines">
      {endpoints.length > 0 ? (
        <CircuitState circuit={circuit} />
      ) : (
        <span title="It has no key, or no model.">
          <Badge>not in use</Badge>
        </span>
      )}
    </span>
  );
}

function KeyStates({ provider: { keys } }: { readonly provider: ProviderHealth }) {
  if (keys.length === 0) return <>–</>;
  return (
    <span class="two-lines">
      {keys.map((one) => (
        <span key={one.name} class="key-state">
          <span>
            {one.name} <small>{keyShare(one, keys)}</small>
          </span>
          <ProviderKeyState keyState={one} />
          {one.message !== null && <small>{one.message}</small>}
        </span>
      ))}
    </span>
  );
}

function RecentFailures({ provider: { recent } }: { readonly provider: ProviderHealth }) {
  if (!recent) return <>–</>;
  const { calls, failed_calls, failures } = recent;
  return (
    <span class="two-lines">
      <span>
        {failed_calls} of {plural(calls, 'call')}
      </span>
      {failed_calls > 0 && <small>{reasonsOf(failures)}</small>}
    </span>
  );
}

interface EndpointConfig {
  readonly provider?: string;
  readonly model?: string;
  readonly pricing?: Readonly<Record<string, string>>;
}

const endpointsOf = ({ config }: ConfigObject): readonly EndpointConfig[] =>
  objectsIn(config?.endpoints);

const modelColumns: readonly Column<ConfigObject>[] = [
  {
    title: 'Status',
    cell: ({ live }) => <Badge tone={live ? 'good' : 'plain'}>{live ? 'live' : 'not live'}</Badge>,
  },
  {
    title: 'Prices',
    cell: (object) => (
      <span class="two-lines">
        {endpointsOf(object).map(({ provider = '', model = '', pricing = {} }) => (
          <span key={`${provider} ${model}`} title={model}>
            <b>{provider}</b> {shortPrice({ pricing })}
          </span>
        ))}
      </span>
    ),
  },
];

const aliasColumns: readonly Column<ConfigObject>[] = [
  {
    title: 'Models',
    cell: (object) => (
      <span class="two-lines">
        {targetsOf(object).map((text) => (
          <span key={text}>{text}</span>
        ))}
      </span>
    ),
  },
];

const planColumns: readonly Column<ConfigObject>[] = [
  { title: 'Margin', cell: marginText },
  {
    title: 'Tenants',
    cell: ({ name }) => <a href={urlFor('operator', { plan: name })}>Show tenants</a>,
  },
];

const kindColumns: Readonly<Record<string, readonly Column<ConfigObject>[]>> = {
  providers: providerColumns,
  models: modelColumns,
  aliases: aliasColumns,
  plans: planColumns,
  settings: [{ title: 'Value', cell: ({ value }) => <code>{JSON.stringify(value ?? null)}</code> }],
};
