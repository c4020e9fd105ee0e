"""Addresses of clouds that look public and are not."""

AZURE_PLATFORM = "168.63.129.16"
"""Azure's platform services, the same in every virtual network:
https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
"""
