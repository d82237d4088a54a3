"""The worker of all customers: `python -m tenants.worker`."""

from tenants.shop import fleet

if __name__ == "__main__":
    print("tenants worker ready", flush=True)
    fleet.run(longest_pause="2s")
