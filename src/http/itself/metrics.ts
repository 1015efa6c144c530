import { expositionType } from '../../telemetry/exposition.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { serviceDocs } from '../openapi/gateway-itself.ts';
import { type Route, routesFor } from '../routes.ts';

const open = routesFor({ access: 'public' });

/** For Prometheus. Open like the health probes: no label names a tenant, a key or a price. */
export function metricsRoutes(metrics: Pick<Metrics, 'write'>): Route[] {
  return [
    open.get(
      '/metrics',
      serviceDocs.metrics,
      ({ headers }) =>
        new Response(metrics.write(), {
          headers: { ...headers, 'content-type': expositionType },
        }),
    ),
  ];
}
